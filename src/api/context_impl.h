// SPDX-License-Identifier: Apache-2.0
// The inside of Context.
#pragma once

#include "core/resources.h"
#include "plan/candidate.h"
#include "tilegate/context.h"

namespace tilegate {

struct Context::Impl {
  explicit Impl(int num_threads) : resources(num_threads) {}
  Resources resources;
  DeviceFacts facts;
};

}  // namespace tilegate
