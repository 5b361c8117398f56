// SPDX-License-Identifier: Apache-2.0
// Asks for a loop of constant length to be unrolled, so that an array of vectors indexed by it
// lives in registers.
#pragma once

#define TILEGATE_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define TILEGATE_UNROLL(count) TILEGATE_PRAGMA(clang loop unroll_count(count))
#elif defined(__GNUC__)
#define TILEGATE_UNROLL(count) TILEGATE_PRAGMA(GCC unroll count)
#else
#define TILEGATE_UNROLL(count)
#endif
