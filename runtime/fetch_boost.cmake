# With VMART_FETCH_BOOST: headers of Boost for this build alone, where the system's are too old. The archives
# of Debian and Ubuntu have the same file.
include(FetchContent)
FetchContent_Declare(vmart_boost
  URL http://deb.debian.org/debian/pool/main/b/boost1.83/boost1.83_1.83.0.orig.tar.xz
      http://archive.ubuntu.com/ubuntu/pool/universe/b/boost1.83/boost1.83_1.83.0.orig.tar.xz
  URL_HASH SHA256=404df4b4072fc7f2d4483d4fc2d61ff6f554dd80c9a812652684d5952e881c91
  DOWNLOAD_NO_EXTRACT ON)
FetchContent_MakeAvailable(vmart_boost)

set(Boost_ROOT ${PROJECT_BINARY_DIR}/boost-1.83.0)
set(Boost_NO_SYSTEM_PATHS ON)
if(NOT EXISTS ${Boost_ROOT}/include)
  message(STATUS "Unpacking the headers of Boost")
  set(unpacked ${vmart_boost_BINARY_DIR}/unpacked)
  file(ARCHIVE_EXTRACT INPUT ${vmart_boost_SOURCE_DIR}/boost1.83_1.83.0.orig.tar.xz DESTINATION ${unpacked}
    PATTERNS "*/include/boost/*")
  file(GLOB folders ${unpacked}/boost/libs/*/include/boost ${unpacked}/boost/libs/numeric/*/include/boost)
  file(COPY ${folders} DESTINATION ${Boost_ROOT}/new)  # One folder of all, as an installed Boost has it.
  file(RENAME ${Boost_ROOT}/new ${Boost_ROOT}/include)
  file(REMOVE_RECURSE ${unpacked})
endif()
