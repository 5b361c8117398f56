// SPDX-License-Identifier: Apache-2.0
// Context: device facts, thread pool, and the one place where the environment is read.
#include <cstdlib>
#include <string_view>

#include "api/context_impl.h"
#include "api/cuda_calls.h"
#include "api/registry.h"
#include "core/message.h"

namespace tilegate {
namespace {

constexpr int kUnset = -2;
constexpr int kCostModel = -1;
constexpr char kDecodeAutoCudnn[] = "TILEGATE_DECODE_AUTO_CUDNN";

// 0 or 1 from the environment, else the cost model decides. Errors: any other text.
Result<int> decode_auto_cudnn_from_environment() {
  const char* text = std::getenv(kDecodeAutoCudnn);
  if (text == nullptr || *text == '\0') return kCostModel;
  if (std::string_view(text) == "0") return 0;
  if (std::string_view(text) == "1") return 1;
  return invalid("{} must be 0 or 1, got \"{}\"", kDecodeAutoCudnn, text);
}

}  // namespace

Result<Context> Context::create(const ContextOptions& options) {
  if (options.num_threads < 0) {
    return invalid("num_threads must be at least 0, got {}", options.num_threads);
  }
  if (options.decode_auto_cudnn < kUnset || options.decode_auto_cudnn > 1) {
    return invalid("decode_auto_cudnn must be -2, -1, 0 or 1, got {}", options.decode_auto_cudnn);
  }
  auto impl = std::make_unique<Impl>(options.num_threads);
  impl->resources.device = options.device;
  Result<DeviceFacts> facts = device_facts(options.device, impl->resources.pool.num_threads());
  if (!facts.ok()) return facts.status();
  impl->facts = *facts;
  impl->facts.decode_auto_cudnn = options.decode_auto_cudnn;
  if (options.decode_auto_cudnn == kUnset) {
    Result<int> choice = decode_auto_cudnn_from_environment();
    if (!choice.ok()) return choice.status();
    impl->facts.decode_auto_cudnn = *choice;
  }
  return Context(std::move(impl));
}

Context::Context(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Context::Context(Context&&) noexcept = default;
Context& Context::operator=(Context&&) noexcept = default;
Context::~Context() {
  if (impl_ == nullptr) return;
  const DeviceScope scope(device());  // a backend's state may wait for its device
  impl_.reset();
}

Device Context::device() const { return impl_->resources.device; }
int Context::num_threads() const { return impl_->resources.pool.num_threads(); }

std::string version() { return TILEGATE_VERSION; }

}  // namespace tilegate
