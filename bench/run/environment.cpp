// SPDX-License-Identifier: Apache-2.0
// Facts read from the operating system, from the library, and from the build.
#include "bench/run/environment.h"

#include <bench_build.h>
#include <fmt/chrono.h>
#include <sys/utsname.h>

#include <fstream>
#include <thread>

#include "tilegate/context.h"

namespace tilegate::bench {
namespace {

// The text behind the first "key ... :" line of a file like /proc/cpuinfo.
Json field_of(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, key.size(), key) != 0) continue;
    const std::size_t value = line.find_first_not_of(" \t", line.find(':') + 1);
    return value == std::string::npos ? nullptr : Json(line.substr(value));
  }
  return nullptr;
}

std::string date() { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))); }

}  // namespace

Json environment(const RunFacts& facts) {
  const bool gpu = facts.device.type == DeviceType::kCuda;
  Json result = {
      {"machine", field_of("/proc/cpuinfo", "model name")},
      {"cores", std::thread::hardware_concurrency()},
      {"gpu", nullptr},
      {"driver", gpu ? field_of("/proc/driver/nvidia/version", "NVRM version") : nullptr},
      {"runtime", gpu ? Json(kCudaRuntime) : nullptr},
      {"version", version()},
      {"commit", kCommit},
      {"compiler", kCompiler},
      {"date", date()},
      {"command", facts.command},
      {"threads", facts.threads},
  };
  utsname os{};
  if (uname(&os) == 0) result["os"] = fmt::format("{} {} {}", os.sysname, os.release, os.machine);
  for (const BackendInfo& backend : backends()) {
    result["backends"][backend.name] =
        backend.available ? backend.detail : "off: " + backend.detail;
    if (gpu && backend.name == "cuda" && backend.available) result["gpu"] = backend.detail;
  }
  return result;
}

}  // namespace tilegate::bench
