// SPDX-License-Identifier: Apache-2.0
// A paged decode call on the GPU beside the fp64 reference backend.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>

#include "tests/gpu/attention/paged_case.h"
#include "tilegate/device_timing.h"

namespace tilegate::test {

inline constexpr double kTolerance = 1.2e-2;  // bf16 output of magnitude 1, weights of 16 bits
inline constexpr double kLseTolerance = 2e-3;

inline Plan plan_on(Context& context, const DecodePagedArgs& args, AttentionOptions options) {
  options.backend =
      context.device().type == DeviceType::kCuda ? Backend::kCuda : Backend::kReference;
  return plan(describe(args, options).value(), context).value();
}

// Runs on the GPU in a workspace full of `garbage`; the outputs are then in c.o() and c.lse() on
// the device.
inline void run_on_gpu(Context& context, const Plan& decode, const DecodePagedArgs& args,
                       unsigned char garbage = 0xff) {
  DeviceBuffer workspace = DeviceBuffer::allocate(gpu(), decode.workspace_bytes()).value();
  workspace.fill(garbage).throw_if_error();
  decode.run(context, args, {workspace.data(), workspace.bytes()}).throw_if_error();
  synchronize(gpu()).throw_if_error();
}

// Compares what the device holds with the reference.
inline void expect_reference_of(DecodeCase& c) {
  Context cpu = Context::create({}).value();
  const auto o = c.o().read();
  const auto lse = c.lse().read();
  const DecodePagedArgs host = c.host();
  plan_on(cpu, host, c.options).run(cpu, host, {}).throw_if_error();
  EXPECT_LE(distance(c.o().host(), o), kTolerance);
  EXPECT_LE(distance(c.lse().host(), lse), kLseTolerance);
}

inline void expect_reference(DecodeCase& c) {
  Context cuda = Context::create({.device = gpu()}).value();
  const DecodePagedArgs on_gpu = c.device();
  run_on_gpu(cuda, plan_on(cuda, on_gpu, c.options), on_gpu);
  expect_reference_of(c);
}

inline void expect_reference(const DecodeShape& shape) {
  DecodeCase c(shape, 11);
  expect_reference(c);
}

// Captures `c` once and replays it after every `change(value)` of its tensors, in a workspace that
// held anything.
template <class Change>
void expect_replays(DecodeCase& c, std::initializer_list<int> values, Change change) {
  Context cuda = Context::create({.device = gpu()}).value();
  const DecodePagedArgs args = c.device();
  const Plan decode = plan_on(cuda, args, c.options);
  DeviceBuffer workspace = DeviceBuffer::allocate(gpu(), decode.workspace_bytes()).value();
  workspace.fill(0xaa).throw_if_error();
  const Stream stream = Stream::create(gpu()).value();
  const auto run = [&] {
    return decode.run(cuda, args, {workspace.data(), workspace.bytes()}, stream.handle());
  };
  const Recording recording = Recording::capture(stream, run).value();
  for (const int value : values) {
    SCOPED_TRACE(value);
    change(value);
    (void)c.device();  // the same addresses
    recording.replay(stream).throw_if_error();
    stream.synchronize().throw_if_error();
    expect_reference_of(c);
  }
}

}  // namespace tilegate::test
