#pragma once

#include <string>

namespace vma {

/// Points VMART_CACHE_DIR to an empty folder. The destructor removes the folder.
class CacheFolder {
 public:
  CacheFolder();
  ~CacheFolder();
  CacheFolder(const CacheFolder&) = delete;
  CacheFolder& operator=(const CacheFolder&) = delete;

  const std::string& path() const { return path_; }
  void write(const std::string& name, const std::string& text) const;

 private:
  std::string path_;
};

}  // namespace vma
