#include "unit/costs/cache_folder.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace vma {

CacheFolder::CacheFolder() : path_(testing::TempDir() + "vmart-XXXXXX") {
  EXPECT_NE(mkdtemp(path_.data()), nullptr);
  setenv("VMART_CACHE_DIR", path_.c_str(), 1);
}

CacheFolder::~CacheFolder() {
  unsetenv("VMART_CACHE_DIR");
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void CacheFolder::write(const std::string& name, const std::string& text) const {
  const std::filesystem::path file = std::filesystem::path(path_) / name;
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

}  // namespace vma
