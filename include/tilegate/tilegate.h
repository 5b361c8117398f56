// SPDX-License-Identifier: Apache-2.0
// The whole public C++ API.
#pragma once

#include "tilegate/attention.h"
#include "tilegate/context.h"
#include "tilegate/linear.h"
#include "tilegate/plan.h"
#include "tilegate/status.h"
#include "tilegate/tensor.h"
