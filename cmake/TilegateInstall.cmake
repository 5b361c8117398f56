# SPDX-License-Identifier: Apache-2.0
# Installs the library, its public headers, the command line program and what find_package(tilegate)
# reads. Before 1.0 a minor version may break callers, so versions match up to the minor one.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(tilegate_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tilegate)

install(TARGETS tilegate EXPORT tilegateTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tilegate
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(EXPORT tilegateTargets NAMESPACE tilegate:: DESTINATION ${tilegate_package_dir})
if(TARGET tilegate_cli)
  install(TARGETS tilegate_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/tilegateConfig.cmake.in
  ${PROJECT_BINARY_DIR}/tilegateConfig.cmake INSTALL_DESTINATION ${tilegate_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tilegateConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/tilegateConfig.cmake
  ${PROJECT_BINARY_DIR}/tilegateConfigVersion.cmake
  DESTINATION ${tilegate_package_dir})
