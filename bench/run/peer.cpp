// SPDX-License-Identifier: Apache-2.0
// A child process with a socket as its standard input and output, so that writing to one that has
// ended is an error rather than a signal.
#include "bench/run/peer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

namespace tilegate::bench {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kPoll(200);       // how soon an interrupt is seen
constexpr milliseconds kFarewell(2000);  // how long a peer may take to end

template <class... A>
Status unavailable(fmt::format_string<A...> format, A&&... arguments) {
  return Status(StatusCode::kUnsupported, fmt::format(format, std::forward<A>(arguments)...));
}

}  // namespace

Result<std::unique_ptr<Peer>> Peer::start(const std::string& name, const Place& place,
                                          const std::atomic<bool>& stop) {
  const std::string folder = place.folder.empty() ? TILEGATE_PEER_FOLDER : place.folder;
  const std::string program = folder + "/" + name + "_peer.py";
  if (!std::filesystem::exists(program)) return unavailable("there is no {}", program);
  std::unique_ptr<Peer> peer(new Peer(name, place, stop));
  if (Status status = peer->spawn(program); !status.ok()) return status;
  Result<Json> hello = peer->read_json();
  if (!hello.ok()) return hello.status();
  if (!hello->value("ready", false)) {
    return unavailable("{}", hello->value("reason", std::string("it gave no reason")));
  }
  peer->versions_ = hello->value("versions", Json::object());
  return peer;
}

Status Peer::spawn(const std::string& program) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return unavailable("no socket could be made");
  }
  socket_ = ends[0];
  std::string python = "python3", path = program;
  char* argv[] = {python.data(), path.data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, place_.log.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0644);
  const int failed = posix_spawnp(&process_, argv[0], &actions, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (failed == 0) return Status();
  process_ = -1;
  return unavailable("python3 could not be started");
}

Peer::~Peer() {
  if (socket_ >= 0) close(socket_);
  if (process_ < 0) return;
  const Clock::time_point deadline = Clock::now() + kFarewell;
  while (waitpid(process_, nullptr, WNOHANG) == 0) {
    if (Clock::now() > deadline) {
      kill(process_, SIGKILL);
      waitpid(process_, nullptr, 0);
      return;
    }
    std::this_thread::sleep_for(milliseconds(10));
  }
}

Status Peer::send_line(const std::string& text) {
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t count = send(socket_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (count <= 0) return unavailable("it has ended; see {}", place_.log);
    sent += static_cast<std::size_t>(count);
  }
  return Status();
}

Result<std::string> Peer::read_line() {
  const auto deadline =
      Clock::now() + milliseconds(static_cast<std::int64_t>(place_.timeout_s * 1e3));
  while (unread_.find('\n') == std::string::npos) {
    if (stop_) throw Interrupted{};
    if (Clock::now() > deadline) {
      return unavailable("it gave no answer in {:.0f} s; see {}", place_.timeout_s, place_.log);
    }
    pollfd waiting{socket_, POLLIN, 0};
    if (poll(&waiting, 1, static_cast<int>(kPoll.count())) <= 0) continue;
    char bytes[65536];
    const ssize_t count = read(socket_, bytes, sizeof bytes);
    if (count <= 0 && stop_) throw Interrupted{};
    if (count <= 0) return unavailable("it has ended; see {}", place_.log);
    unread_.append(bytes, static_cast<std::size_t>(count));
  }
  const std::size_t end = unread_.find('\n');
  const std::string line = unread_.substr(0, end);
  unread_.erase(0, end + 1);
  return line;
}

Result<Json> Peer::read_json() {
  Result<std::string> line = read_line();
  if (!line.ok()) return line.status();
  Json answer = Json::parse(*line, nullptr, /*allow_exceptions=*/false);
  if (!answer.is_object()) return unavailable("it answered no JSON object; see {}", place_.log);
  return answer;
}

Result<Json> Peer::ask(const Json& request) {
  if (socket_ < 0) return unavailable("it stopped answering earlier; see {}", place_.log);
  Status sent = send_line(request.dump() + "\n");
  Result<Json> answer = sent.ok() ? read_json() : Result<Json>(sent);
  if (!answer.ok()) {
    close(socket_);
    socket_ = -1;
    kill(process_, SIGKILL);
  }
  return answer;
}

}  // namespace tilegate::bench
