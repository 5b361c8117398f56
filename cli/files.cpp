// SPDX-License-Identifier: Apache-2.0
// A path that does not exist stays in the list: reading it gives the error, in its turn.
#include "cli/files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

namespace tilegate::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kExtension = ".safetensors";

Result<std::vector<std::string>> list_folder(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == kExtension) paths.push_back(it->path().string());
  }
  if (error) return Status(StatusCode::kIo, fmt::format("{}: {}", folder, error.message()));
  if (paths.empty()) {
    return Status(StatusCode::kIo,
                  fmt::format("{}: a folder must hold *{} files, got none", folder, kExtension));
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

Status check_outputs(const CaseFiles& files, const std::vector<std::string>& outputs) {
  std::set<std::string> seen;
  for (const std::string& output : outputs) {
    if (!seen.insert(output).second) {
      return Status(StatusCode::kIo,
                    fmt::format("{}: cases must have different file names, got two", output));
    }
    std::error_code error;
    for (const std::string& input : files.paths) {
      if (fs::equivalent(input, output, error)) {
        return Status(StatusCode::kIo, fmt::format("{}: --out must not be an input", output));
      }
    }
  }
  return Status();
}

}  // namespace

Result<CaseFiles> find_case_files(const std::vector<std::string>& arguments) {
  CaseFiles files;
  files.several = arguments.size() > 1;
  for (const std::string& argument : arguments) {
    std::error_code error;
    if (!fs::is_directory(argument, error)) {
      files.paths.push_back(argument);
      continue;
    }
    Result<std::vector<std::string>> listed = list_folder(argument);
    if (!listed.ok()) return listed.status();
    files.several = true;
    files.paths.insert(files.paths.end(), listed->begin(), listed->end());
  }
  return files;
}

Result<std::vector<std::string>> output_paths(const CaseFiles& files, const std::string& out) {
  std::vector<std::string> outputs;
  if (out.empty()) return outputs;
  std::error_code error;
  const bool folder = files.several || out.ends_with('/') || fs::is_directory(out, error);
  if (folder) {
    fs::create_directories(out, error);
    if (!fs::is_directory(out, error)) {
      return Status(StatusCode::kIo,
                    fmt::format("{}: --out must be a folder that can be made", out));
    }
  }
  for (const std::string& path : files.paths) {
    outputs.push_back(folder ? (fs::path(out) / fs::path(path).filename()).string() : out);
  }
  if (Status status = check_outputs(files, outputs); !status.ok()) return status;
  return outputs;
}

}  // namespace tilegate::cli
