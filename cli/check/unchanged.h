// SPDX-License-Identifier: Apache-2.0
// States that a call must pass on bit for bit: rows of a pool that no sequence names, and states of
// empty sequences.
#pragma once

#include <string>

#include "cli/case/case_file.h"

namespace tilegate::cli {

// A sentence about the first state that changed; empty when none did.
std::string find_changed_state(const Case& c, const Tensors& results);

}  // namespace tilegate::cli
