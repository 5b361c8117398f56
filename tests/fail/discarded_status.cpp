// SPDX-License-Identifier: Apache-2.0
// A Status may not be dropped on the floor.
#include "tilegate/tilegate.h"

void advance(tilegate::Context& context, const tilegate::MergeStatesArgs& args) {
#if TILEGATE_BAD
  tilegate::merge_states(context, args);
#else
  tilegate::merge_states(context, args).throw_if_error();
#endif
}
