// SPDX-License-Identifier: Apache-2.0
// An option that does not exist is no option that is ignored.
#include "tilegate/attention.h"

tilegate::AttentionOptions options() {
  tilegate::AttentionOptions result;
#if TILEGATE_BAD
  result.window = 128;
#else
  result.window_left = 128;
#endif
  return result;
}
