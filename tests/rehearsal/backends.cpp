// SPDX-License-Identifier: Apache-2.0
// The laws of op_tests as an H200 would see them, on a machine without one: the kernels of cuda and
// cudnn judge every problem by their own rules, and the cpu backend computes what they would serve.
// A law without a problem that a kernel for its operation serves fails here: on a GPU it would be
// skipped and prove nothing. What a backend lacks altogether is listed in kFeatures.
#include <algorithm>
#include <array>
#include <string_view>

#include "api/registry.h"
#include "plan/planner.h"
#include "tests/op/harness/law.h"

namespace laws {
namespace {

using tilegate::Backend;

// A part of each rejection that no shape or dtype avoids.
constexpr std::array kFeatures = {
    "has no kernel for this operation",     "it serves batch_decode_paged",
    "a custom mask is not served",          "custom masks must be absent for cuDNN",
    "logits_soft_cap must be 0 for cuDNN",  "batch_invariant must be false for cuDNN",
    "fixed_split_size must be 0 for cuDNN", "disable_split_kv must be false for cuDNN",
    "use_cp must be \"auto\" or False",
};

tilegate::DeviceFacts h200() {
  tilegate::DeviceFacts facts;
  facts.type = tilegate::DeviceType::kCuda;
  facts.name = "NVIDIA H200";
  facts.num_sms = 132;
  facts.compute_capability = 90;
  facts.bandwidth_gbps = 4278.0;
  facts.cudnn_version = 91900;
  return facts;
}

class OnH200 : public Rehearsal {
 public:
  tilegate::Status admit(const tilegate::Problem& problem) const override {
    return tilegate::make_plan(problem.shared(), h200(), tilegate::all_candidates()).status();
  }
  // Every kernel that was considered must say so; their reasons stand one after another.
  bool lacks_feature(const std::string& rejection) const override {
    for (std::size_t begin = 0; begin < rejection.size();) {
      const std::size_t end = std::min(rejection.find(kBetweenKernels, begin), rejection.size());
      if (!names_feature(rejection.substr(begin, end - begin))) return false;
      begin = end + std::string_view(kBetweenKernels).size();
    }
    return true;
  }

 private:
  static constexpr const char* kBetweenKernels = "; ";
  static bool names_feature(const std::string& reason) {
    return std::any_of(kFeatures.begin(), kFeatures.end(), [&](const char* feature) {
      return reason.find(feature) != std::string::npos;
    });
  }
};

}  // namespace

std::vector<UnderTest> backends_under_test() {
  static const OnH200 rehearsal;
  std::vector<UnderTest> under_test;
  for (const auto& [name, backend] :
       {std::pair{"cuda", Backend::kCuda}, {"cudnn", Backend::kCudnn}}) {
    const auto& all = tilegate::all_candidates();
    const bool built = std::any_of(all.begin(), all.end(), [&, backend = backend](const auto* c) {
      return c->backend == backend;
    });
    if (!built) continue;
    under_test.push_back({name, backend, {tilegate::DeviceType::kCuda, 0}, &rehearsal});
  }
  return under_test;
}

}  // namespace laws
