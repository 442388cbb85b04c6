#include "tools/command_line/build_information.hpp"

#include "abi/run_table.hpp"
#include "base/interface_versions.hpp"
#include "base/json.hpp"

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <boost/version.hpp>

#include <fmt/format.h>

namespace vma {
namespace {

namespace json = boost::json;

std::string dotted(int version, int major, int minor) {
  return fmt::format("{}.{}.{}", version / major, version % major / minor, version % minor);
}

json::value commit() {
  if (built_commit == nullptr) return nullptr;
  return json::value(built_commit);
}

}  // namespace

std::string version_text(const std::string& program) {
  return fmt::format("{} {}", program, VMART_VERSION);
}

std::string version_json(const std::string& program) {
  const json::object features{{"simulated", true},  // Every build has the simulated driver.
                              {"cuda", VMART_WITH_CUDA != 0},
                              {"run", VMART_WITH_RUN != 0},
                              {"simcuda", VMART_WITH_SIMCUDA != 0},
                              {"python", VMART_WITH_PYTHON != 0},
                              {"nvtx", VMART_WITH_NVTX != 0},
                              {"zlib", VMART_WITH_ZLIB != 0},
                              {"check_access", VMART_WITH_CHECK_ACCESS != 0}};
  const json::object libraries{{"boost", dotted(BOOST_VERSION, 100'000, 100)},
                               {"fmt", dotted(FMT_VERSION, 10'000, 100)}};
  const json::object interfaces{{"c", c_interface},
                                {"cpp", VMART_MINOR_VERSION},
                                {"policies", VMART_MINOR_VERSION},
                                {"control", control_protocol},
                                {"lab", lab_protocol},
                                {"run", fmt::format("{:016x}", RunTable::version)}};
  return readable_json(json::object{{"program", program},
                                    {"version", VMART_VERSION},
                                    {"commit", commit()},
                                    {"compiler", VMART_COMPILER},
                                    {"build_type", VMART_BUILD_TYPE},
                                    {"library", VMART_LIBRARY_KIND},
                                    {"features", features},
                                    {"libraries", libraries},
                                    {"interfaces", interfaces}});
}

}  // namespace vma
