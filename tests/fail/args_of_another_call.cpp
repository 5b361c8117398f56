// SPDX-License-Identifier: Apache-2.0
// Options of one family do not go with arguments of another.
#include "tilegate/plan.h"

bool well_formed(const tilegate::MergeStatesArgs& args) {
#if TILEGATE_BAD
  return tilegate::describe(args, tilegate::AttentionOptions{}).ok();
#else
  return tilegate::describe(args, tilegate::MergeOptions{}).ok();
#endif
}
