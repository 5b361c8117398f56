// SPDX-License-Identifier: Apache-2.0
// Order: what the file says, what the shapes say, what the index values say. Outputs have no memory
// yet: a malformed call must not make us allocate what it asks for.
#include "cli/case/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace tilegate::cli {
namespace {

Backend backend_of(const std::string& name) {
  if (name == "cpu") return Backend::kCpu;
  if (name == "cuda") return Backend::kCuda;
  if (name == "cudnn") return Backend::kCudnn;
  if (name == "reference") return Backend::kReference;
  return Backend::kAuto;
}

// The first GPU for the backends that need one. "auto" stays on the CPU, where every case can run.
Device device_of(Backend backend) {
  Device device;
  if (backend == Backend::kCuda || backend == Backend::kCudnn) device.type = DeviceType::kCuda;
  return device;
}

// The same call with its tensors on another device.
Result<Problem> describe_on(Device device, const Case& c, Views inputs, Views outputs,
                            Backend backend) {
  for (auto& [name, view] : inputs) view.device = device;
  for (auto& [name, view] : outputs) view.device = device;
  return describe_call(make_call(c, inputs, outputs, backend));
}

Result<PreparedCase> prepare(Case c, const PrepareOptions& options) {
  if (Status status = complete_inputs(c); !status.ok()) return status;
  if (Status status = check_page_size(c); !status.ok()) return status;
  Result<std::vector<OutputSpec>> outputs = outputs_of(c);
  if (!outputs.ok()) return outputs.status();
  Views input_views, output_views;
  for (const auto& [name, tensor] : c.inputs) input_views.emplace(name, tensor.view());
  for (const OutputSpec& spec : *outputs) output_views.emplace(spec.name, spec.view());
  const Backend backend = backend_of(options.backend);
  const Call call = make_call(c, input_views, output_views, backend);
  Result<Problem> problem = describe_call(call);
  if (!problem.ok()) return problem.status();
  if (Status status = check_values(*problem, call.args); !status.ok()) return status;
  if (options.check) {
    if (Status status = check_expected(c, *outputs); !status.ok()) return status;
  }
  const Device device = device_of(backend);
  problem = describe_on(device, c, std::move(input_views), std::move(output_views), backend);
  if (!problem.ok()) return problem.status();
  return PreparedCase{std::move(c), std::move(*outputs), backend, device, std::move(*problem)};
}

}  // namespace

Status at_path(const std::string& path, const Status& status) {
  std::string message = status.message();
  for (std::size_t end = message.find('\n'); end != std::string::npos; end = message.find('\n')) {
    message.replace(end, 1, "; ");
  }
  return Status(status.code(), fmt::format("{}: {}", path, message));
}

Result<PreparedCase> prepare_case(const std::string& path, const PrepareOptions& options) {
  Result<Case> c = load_case(path, options.overrides);
  if (!c.ok()) return c.status();
  Result<PreparedCase> prepared = prepare(std::move(*c), options);
  if (!prepared.ok()) return at_path(path, prepared.status());
  return prepared;
}

Result<Context> make_context(const std::string& backend, int threads) {
  for (const BackendInfo& info : backends()) {
    if (info.name == backend && !info.available) {
      return Status(StatusCode::kUnsupported,
                    fmt::format("backend {} is off: {}", backend, info.detail));
    }
  }
  ContextOptions options;
  options.num_threads = threads;
  options.device = device_of(backend_of(backend));
  return Context::create(options);
}

}  // namespace tilegate::cli
