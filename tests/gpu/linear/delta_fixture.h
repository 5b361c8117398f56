// SPDX-License-Identifier: Apache-2.0
// Runs a DeltaCase on the GPU and beside the fp64 reference backend.
#pragma once

#include <gtest/gtest.h>

#include <optional>

#include "tests/gpu/linear/delta_case.h"

namespace tilegate::test {

class DeltaGpuTest : public testing::Test {
 protected:
  void SetUp() override {
    TILEGATE_REQUIRE_GPU(80);
    cuda_.emplace(Context::create({.device = {DeviceType::kCuda, 0}}).value());
    cpu_.emplace(Context::create({}).value());
  }

  Plan plan_for(DeltaCase& c, const DeltaRuleArgs& args, Backend backend) {
    DeltaRuleOptions options = c.options;
    options.backend = backend;
    Context& context = backend == Backend::kCuda ? *cuda_ : *cpu_;
    return plan(describe(c.shape.rule, args, options).value(), context).value();
  }

  void run_gpu(DeltaCase& c, void* stream = nullptr) {
    const DeltaRuleArgs args = c.device();
    plan_for(c, args, Backend::kCuda).run(*cuda_, args, {}, stream).throw_if_error();
    synchronize({DeviceType::kCuda, 0}).throw_if_error();
  }

  void run_reference(DeltaCase& c) {
    const DeltaRuleArgs args = c.host();
    plan_for(c, args, Backend::kReference).run(*cpu_, args, {}).throw_if_error();
  }

  // Leaves the reference's answers in host memory.
  void expect_reference(DeltaCase& c) {
    c.push();
    run_gpu(c);
    std::vector<std::vector<unsigned char>> got;
    for (Mirror* m : c.outputs()) got.push_back(m->present() ? m->read() : m->bytes());
    run_reference(c);
    const char* const names[] = {"o",        "output_state", "pool",       "record_k",
                                 "record_d", "record_decay", "checkpoints"};
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (!c.outputs()[i]->present()) continue;
      EXPECT_LE(error_of(*c.outputs()[i], got[i]), 1.0) << names[i];
    }
  }

  void expect_reference(const DeltaShape& shape, const std::string& what) {
    SCOPED_TRACE(what);
    DeltaCase c(shape);
    expect_reference(c);
  }

  std::optional<Context> cuda_;
  std::optional<Context> cpu_;
};

}  // namespace tilegate::test
