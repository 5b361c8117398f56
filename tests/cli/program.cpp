// SPDX-License-Identifier: Apache-2.0
// posix_spawn with both streams sent to files.
#include "program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace tilegate::cli::testing {
namespace {

std::string test_name() {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  std::string name = std::string(test->test_suite_name()) + "_" + test->name();
  for (char& c : name) {
    if (c == '/') c = '_';
  }
  return name;
}

std::string read_text(const std::string& path) {
  std::ifstream stream(path);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

}  // namespace

Said run_program(const std::vector<std::string>& arguments) {
  const std::string stem = ::testing::TempDir() + "tilegate_said_" + std::to_string(getpid());
  const std::string out_path = stem + ".out", err_path = stem + ".err";
  std::string program = TILEGATE_PROGRAM;
  std::vector<std::string> words = arguments;
  std::vector<char*> argv = {program.data()};
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out_path.c_str(), kFlags, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err_path.c_str(), kFlags, 0600);
  pid_t child = 0;
  Said said;
  const int failed = posix_spawn(&child, program.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return said;
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status)) said.code = WEXITSTATUS(status);
  said.out = read_text(out_path);
  said.err = read_text(err_path);
  std::filesystem::remove(out_path);
  std::filesystem::remove(err_path);
  return said;
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> result;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) result.push_back(line);
  return result;
}

std::string fresh_folder() {
  const std::string folder = ::testing::TempDir() + "tilegate_cli_" + test_name();
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

}  // namespace tilegate::cli::testing
