// SPDX-License-Identifier: Apache-2.0
// A peer: a Python program in bench/peers/ that times other libraries' kernels on the shapes we
// send. One JSON object a line, both ways, over its standard input and output:
//
//   peer: {"ready": true, "versions": {..}}            or {"ready": false, "reason": ".."}
//   us:   {"shape": {..}, "scopes": [{"timing": "graph", "l2": "warm"}], "pass": 1, "warmups": 20,
//          "repeats": 100, "seconds": 0.5, ..}
//   peer: {"results": [{"backend": "fa2", "timing": .., "l2": .., "samples_ms": [..]}],
//          "declined": [{"backend": "fa3", "reason": ".."}]}
//         a result whose work is not the row's says how: {"differs": "dense keys", ..}
//   us:   {"ceiling": "gemm"}       peer: {"tflop_per_s": 715.2, "from": ".."} or {"reason": ".."}
#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <string>

#include "bench/run/result.h"

namespace tilegate::bench {

class Peer {
 public:
  struct Place {
    std::string folder;  // holds NAME_peer.py; empty: the source tree's
    std::string log;     // what the peer says on stderr goes there
    double timeout_s = 300.0;
  };

  // Starts the program and waits until it is ready. Errors: unsupported, with the peer's reason.
  static Result<std::unique_ptr<Peer>> start(const std::string& name, const Place& place,
                                             const std::atomic<bool>& stop);
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer();

  const std::string& name() const { return name_; }
  const Json& versions() const { return versions_; }
  // Errors: unsupported (it ended, answered nonsense or too late: it answers nothing from then on).
  // Throws Interrupted.
  Result<Json> ask(const Json& request);

 private:
  Peer(std::string name, Place place, const std::atomic<bool>& stop)
      : name_(std::move(name)), place_(std::move(place)), stop_(stop) {}
  Status spawn(const std::string& program);
  Status send_line(const std::string& text);
  Result<std::string> read_line();
  Result<Json> read_json();

  std::string name_;
  Place place_;
  const std::atomic<bool>& stop_;
  Json versions_;
  pid_t process_ = -1;
  int socket_ = -1;
  std::string unread_;
};

}  // namespace tilegate::bench
