#pragma once

#include <filesystem>
#include <string>
#include <utility>

namespace vma {

/// A file that is being made: it is removed unless somebody says that it is whole.
class UnfinishedFile {
 public:
  explicit UnfinishedFile(std::string path) : path_(std::move(path)) {}
  ~UnfinishedFile() {
    std::error_code ignored;  // It may never have been made.
    if (!kept_) std::filesystem::remove(path_, ignored);
  }
  UnfinishedFile(const UnfinishedFile&) = delete;
  UnfinishedFile& operator=(const UnfinishedFile&) = delete;

  void keep() noexcept { kept_ = true; }

 private:
  std::string path_;
  bool kept_ = false;
};

}  // namespace vma
