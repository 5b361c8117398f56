// SPDX-License-Identifier: Apache-2.0
// The only file that names all backends.
#include "api/registry.h"

#include "backend/cpu/candidates.h"
#include "backend/reference/candidates.h"
#include "core/message.h"
#ifdef TILEGATE_HAVE_CUDA
#include "backend/cuda/candidates.h"
#include "backend/cuda/device.h"
#endif
#ifdef TILEGATE_HAVE_CUDNN
#include "backend/cudnn/candidates.h"
#include "backend/cudnn/device.h"
#endif

namespace tilegate {
namespace {

std::vector<const Candidate*> collect() {
  std::vector<const Candidate*> all;
  auto add = [&](std::span<const Candidate> candidates) {
    for (const Candidate& candidate : candidates) all.push_back(&candidate);
  };
  add(cpu_attention_candidates());
  add(cpu_linear_candidates());
#ifdef TILEGATE_HAVE_CUDA
  add(cuda_candidates());
  add(cuda_linear_candidates());
#endif
#ifdef TILEGATE_HAVE_CUDNN
  add(cudnn_candidates());
#endif
  add(reference_attention_candidates());
  add(reference_linear_candidates());
  return all;
}

BackendInfo cuda_info() {
#ifdef TILEGATE_HAVE_CUDA
  Result<DeviceFacts> facts = cuda_device_facts(0);
  if (!facts.ok()) return {"cuda", false, facts.status().message()};
  return {"cuda", true,
          fmt::format("{}, sm_{}, {} SMs", facts->name, facts->compute_capability, facts->num_sms)};
#else
  return {"cuda", false, "not built: " TILEGATE_CUDA_REASON};
#endif
}

[[maybe_unused]] void add_cudnn_facts(DeviceFacts& facts) {
#ifdef TILEGATE_HAVE_CUDNN
  CudnnFacts found = cudnn_facts();
  facts.cudnn_version = found.version;
  facts.cudnn_missing = std::move(found.missing);
#else
  facts.cudnn_missing = "not built: " TILEGATE_CUDNN_REASON;
#endif
}

BackendInfo cudnn_info() {
#ifdef TILEGATE_HAVE_CUDNN
  const CudnnFacts found = cudnn_facts();
  if (found.version == 0) return {"cudnn", false, found.missing};
  const BackendInfo cuda = cuda_info();  // both run on the same devices
  std::string text = fmt::format("cuDNN {}", found.text);
  if (!cuda.available) return {"cudnn", false, fmt::format("{}, but {}", text, cuda.detail)};
  return {"cudnn", true, std::move(text)};
#else
  return {"cudnn", false, "not built: " TILEGATE_CUDNN_REASON};
#endif
}

}  // namespace

const std::vector<const Candidate*>& all_candidates() {
  static const std::vector<const Candidate*> all = collect();
  return all;
}

Result<DeviceFacts> device_facts(Device device, int num_threads) {
  if (device.type == DeviceType::kCuda) {
#ifdef TILEGATE_HAVE_CUDA
    Result<DeviceFacts> facts = cuda_device_facts(device.index);
    if (facts.ok()) add_cudnn_facts(*facts);
    return facts;
#else
    return invalid("device must be cpu in a build without CUDA ({}), got cuda:{}",
                   TILEGATE_CUDA_REASON, device.index);
#endif
  }
  DeviceFacts facts;
  facts.type = DeviceType::kCpu;
  facts.name = cpu_isa_name();
  facts.num_threads = num_threads;
  return facts;
}

std::vector<BackendInfo> backends() {
  return {
      {"reference", true, "fp64 definition"},
      {"cpu", true, cpu_isa_name()},
      cuda_info(),
      cudnn_info(),
  };
}

}  // namespace tilegate
