// SPDX-License-Identifier: Apache-2.0
// Named sets of rows. Goals and the peer times beside them were set on one NVIDIA H200 (the cpu
// rows: on a 16-core Xeon); a goal is its ratio to the best peer of its row.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/rows/shapes.h"

namespace tilegate::bench {

// Nothing when there is no set of that name.
std::optional<std::vector<Row>> attention_set(std::string_view name);
std::optional<std::vector<Row>> linear_set(std::string_view name);

const std::vector<std::string>& attention_set_names();
const std::vector<std::string>& linear_set_names();

}  // namespace tilegate::bench
