// SPDX-License-Identifier: Apache-2.0
// Exit statuses of the program, and which one wins over several cases.
#pragma once

#include <algorithm>
#include <array>

#include "tilegate/status.h"

namespace tilegate::cli {

enum class ExitCode : int {
  kOk = 0,
  kMiss = 1,           // a check misses
  kMalformed = 2,      // usage, a file that cannot be read or is malformed, invalid_argument
  kUnsupported = 3,    // a backend rejects
  kFailure = 4,        // CUDA, cuDNN, communication or memory
  kInterrupted = 130,  // Ctrl-C, as a shell counts it
};

constexpr ExitCode exit_code(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return ExitCode::kOk;
    case StatusCode::kInvalidArgument:
      return ExitCode::kMalformed;
    case StatusCode::kIo:
      return ExitCode::kMalformed;
    case StatusCode::kUnsupported:
      return ExitCode::kUnsupported;
    case StatusCode::kOutOfWorkspace:
      return ExitCode::kFailure;
    case StatusCode::kCuda:
      return ExitCode::kFailure;
    case StatusCode::kCudnn:
      return ExitCode::kFailure;
    case StatusCode::kComm:
      return ExitCode::kFailure;
  }
  return ExitCode::kFailure;
}

// The first present of 4, 2, 1, 3.
constexpr ExitCode graver(ExitCode a, ExitCode b) {
  constexpr std::array kOrder = {ExitCode::kFailure, ExitCode::kMalformed, ExitCode::kMiss,
                                 ExitCode::kUnsupported, ExitCode::kOk};
  return std::min(a, b, [&](ExitCode x, ExitCode y) {
    return std::find(kOrder.begin(), kOrder.end(), x) < std::find(kOrder.begin(), kOrder.end(), y);
  });
}

}  // namespace tilegate::cli
