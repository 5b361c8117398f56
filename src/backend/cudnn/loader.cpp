// SPDX-License-Identifier: Apache-2.0
// dlopen of cuDNN; the table of CUDA runtime functions that the frontend may ask for.
#include "backend/cudnn/loader.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <array>
#include <string_view>

#include "backend/cudnn/device.h"
#include "backend/cudnn/graph/support.h"

namespace tilegate {
namespace cudnn {
namespace {

constexpr char kCudnn[] = "libcudnn.so.9";
constexpr std::string_view kRuntime = "libcudart";

struct Symbol {
  std::string_view name;
  void* address;
};

template <class F>
void* address_of(F* function) {
  return reinterpret_cast<void*>(function);
}

const auto& runtime_symbols() {
  static const std::array symbols = {
    Symbol{"cudaRuntimeGetVersion", address_of(&cudaRuntimeGetVersion)},
    Symbol{"cudaGetDevice", address_of(&cudaGetDevice)},
    Symbol{"cudaDeviceGetAttribute", address_of(&cudaDeviceGetAttribute)},
    Symbol{"cudaGetDeviceProperties", address_of(&cudaGetDeviceProperties)},
    Symbol{"cudaGetLastError", address_of(&cudaGetLastError)},
    Symbol{"cudaGetErrorString", address_of(&cudaGetErrorString)},
    Symbol{"cudaGetDriverEntryPointByVersion", address_of(&cudaGetDriverEntryPointByVersion)},
    Symbol{"cudaPointerGetAttributes",
           address_of<cudaError_t(cudaPointerAttributes*, const void*)>(&cudaPointerGetAttributes)},
    // Of the frontend's destructors, which must not fail.
    Symbol{"cudaThreadExchangeStreamCaptureMode", address_of(&cudaThreadExchangeStreamCaptureMode)},
    Symbol{"cudaStreamIsCapturing", address_of(&cudaStreamIsCapturing)},
#if CUDART_VERSION >= 13000
    Symbol{"cudaStreamGetCaptureInfo",
           address_of<cudaError_t(cudaStream_t, cudaStreamCaptureStatus*, unsigned long long*,
                                  cudaGraph_t*, const cudaGraphNode_t**, const cudaGraphEdgeData**,
                                  std::size_t*)>(&cudaStreamGetCaptureInfo)},
#else
    Symbol{"cudaGetDeviceProperties_v2", address_of(&cudaGetDeviceProperties)},
    Symbol{"cudaStreamGetCaptureInfo_v2",
           address_of<cudaError_t(cudaStream_t, cudaStreamCaptureStatus*, unsigned long long*,
                                  cudaGraph_t*, const cudaGraphNode_t**, std::size_t*)>(
               &cudaStreamGetCaptureInfo_v2)},
#endif
    Symbol{"cudaUserObjectCreate", address_of(&cudaUserObjectCreate)},
    Symbol{"cudaUserObjectRelease", address_of(&cudaUserObjectRelease)},
    Symbol{"cudaGraphRetainUserObject", address_of(&cudaGraphRetainUserObject)},
    Symbol{"cudaMemcpyAsync", address_of(&cudaMemcpyAsync)},
    Symbol{"cudaMemsetAsync", address_of(&cudaMemsetAsync)},
  };
  return symbols;
}

// Stands for the linked runtime: an address that no library handle has.
void* runtime_handle() {
  static char handle;
  return &handle;
}

Library load() {
  Library found;
  // By its soname, so a copy that the process already has (a framework's) is the one that is used.
  found.handle = dlopen(kCudnn, RTLD_NOW | RTLD_LOCAL);
  if (found.handle == nullptr) {
    const char* reason = dlerror();
    found.missing = reason != nullptr ? reason : "libcudnn.so.9 is not on the loader's path";
    return found;
  }
  void* const version = dlsym(found.handle, "cudnnGetVersion");
  if (version == nullptr) {
    found.handle = nullptr;
    found.missing = "libcudnn.so.9 has no cudnnGetVersion";
    return found;
  }
  found.version = static_cast<int>(reinterpret_cast<std::size_t (*)()>(version)());
  return found;
}

}  // namespace

const Library& library() {
  static const Library found = load();
  return found;
}

void* open_library(const char* name, int flags) {
  const std::string_view text(name);
  if (text.find(kRuntime) == std::string_view::npos) return dlopen(name, flags);
  // The frontend tries several majors and complains of more than one.
  constexpr int kMajor = CUDART_VERSION / 1000;
  return text.ends_with(std::to_string(kMajor)) ? runtime_handle() : nullptr;
}

void* find_symbol(void* handle, const char* name) {
  if (handle != runtime_handle()) return dlsym(handle, name);
  for (const Symbol& symbol : runtime_symbols()) {
    if (symbol.name == name) return symbol.address;
  }
  return nullptr;
}

}  // namespace cudnn

CudnnFacts cudnn_facts() {
  const cudnn::Library& found = cudnn::library();
  return {found.version, found.missing,
          found.version > 0 ? cudnn::version_text(found.version) : std::string()};
}

}  // namespace tilegate
