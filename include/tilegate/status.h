// SPDX-License-Identifier: Apache-2.0
// Status and Result<T>: how every tilegate call reports success or failure.
// Errors are values: a code and one sentence that names the argument, what it must be and what it
// was. The library throws nothing; `Result::value()` throws for callers who prefer exceptions.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace tilegate {

enum class StatusCode {
  kOk,
  kInvalidArgument,  // the call itself is malformed
  kUnsupported,      // well formed, but no considered backend serves it
  kOutOfWorkspace,   // workspace too small, or memory could not be had
  kCuda,             // the CUDA runtime or driver failed
  kCudnn,            // cuDNN failed
  kComm,             // communication between ranks failed
  kIo,               // a file could not be read or written
};

// "invalid_argument", "unsupported", ...
constexpr std::string_view to_string(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "ok";
    case StatusCode::kInvalidArgument:
      return "invalid_argument";
    case StatusCode::kUnsupported:
      return "unsupported";
    case StatusCode::kOutOfWorkspace:
      return "out_of_workspace";
    case StatusCode::kCuda:
      return "cuda";
    case StatusCode::kCudnn:
      return "cudnn";
    case StatusCode::kComm:
      return "comm";
    case StatusCode::kIo:
      return "io";
  }
  return "unknown";
}

class Status;

// What `value()` and `throw_if_error()` throw. The library itself never throws it.
class Error : public std::runtime_error {
 public:
  Error(StatusCode code, const std::string& message)
      : std::runtime_error(std::string(to_string(code)) + ": " + message), code_(code) {}
  StatusCode code() const { return code_; }

 private:
  StatusCode code_;
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }
  std::string to_string() const {
    return ok() ? "ok" : std::string(tilegate::to_string(code_)) + ": " + message_;
  }
  void throw_if_error() const {
    if (!ok()) throw Error(code_, message_);
  }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

// Either a T or the Status that says why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  // Valid only when ok().
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

  // Throws tilegate::Error when there is no value.
  T& value() & {
    status_.throw_if_error();
    return *value_;
  }
  T value() && {
    status_.throw_if_error();
    return *std::move(value_);
  }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace tilegate
