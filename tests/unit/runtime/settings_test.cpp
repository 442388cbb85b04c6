// Goal: options override the environment, and the environment overrides the defaults; an invalid
// value is refused with its variable's name and its text.
#include "runtime/settings.hpp"

#include "base/units.hpp"
#include "unit/memory/memory_rig.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace vma {
namespace {

constexpr const char* variables[] = {"VMART_DRIVER",           "VMART_DEVICES",
                                     "VMART_CAPACITY",         "VMART_CACHE_BYTES_PER_GPU",
                                     "VMART_HOST_CACHE_BYTES", "VMART_HOLD_LIMIT_MS",
                                     "VMART_COPY_SHARE",       "VMART_PRESSURE_LIMIT_MS",
                                     "VMART_PACE_GUARD",       "VMART_STALL_AHEAD_MS",
                                     "VMART_POLICY",           "VMART_CONTROL",
                                     "VMART_TIMELINE",         "VMART_RECORD",
                                     "VMART_DECISIONS",        "VMART_DRY_RUN",
                                     "VMART_OWN_CONTEXTS",     "VMART_PREPARE",
                                     "VMART_EXPORTABLE",       "VMART_STOP"};

class SettingsTest : public testing::Test {
 protected:
  SettingsTest() { clear(); }
  ~SettingsTest() override { clear(); }
  static void clear() {
    for (const char* name : variables) unsetenv(name);
  }
  static Settings with(const char* name, const std::string& value) {
    setenv(name, value.c_str(), 1);
    return resolve_settings({});
  }
};

TEST_F(SettingsTest, HasDefaults) {
  const Settings settings = resolve_settings({});
  EXPECT_EQ(settings.driver, "cuda");
  EXPECT_TRUE(settings.devices.empty());
  EXPECT_TRUE(settings.capacity_bytes.empty());
  EXPECT_EQ(settings.cache_bytes_per_gpu, 512 * MiB);
  EXPECT_EQ(settings.host_cache_bytes, GiB);
  EXPECT_EQ(settings.hold_limit, std::chrono::seconds(2));
  EXPECT_EQ(settings.pressure_limit, std::chrono::seconds(2));
  EXPECT_EQ(settings.copy_share_percent, 50);
  EXPECT_EQ(settings.stall_ahead, std::chrono::seconds(4));
  EXPECT_TRUE(settings.pace_guard);
  EXPECT_EQ(settings.exportable, ExportTypes{});
}

TEST_F(SettingsTest, ReadsTheEnvironment) {
  EXPECT_EQ(with("VMART_DRIVER", "sim:test-2").driver, "sim:test-2");
  EXPECT_EQ(with("VMART_DEVICES", "1,0").devices, (std::vector<int>{1, 0}));
  const auto capacity = with("VMART_CAPACITY", "gpu0=4GiB,host(0)=64M").capacity_bytes;
  EXPECT_EQ(capacity, (std::map<Place, std::uint64_t>{{gpu(0), 4 * GiB}, {host(0), 64 * MiB}}));
  EXPECT_EQ(with("VMART_CACHE_BYTES_PER_GPU", "0").cache_bytes_per_gpu, 0u);
  EXPECT_EQ(with("VMART_HOST_CACHE_BYTES", "12K").host_cache_bytes, 12 * KiB);
  EXPECT_EQ(with("VMART_HOLD_LIMIT_MS", "7").hold_limit, std::chrono::milliseconds(7));
  EXPECT_EQ(with("VMART_COPY_SHARE", "12").copy_share_percent, 12);
  EXPECT_EQ(with("VMART_PRESSURE_LIMIT_MS", "9").pressure_limit, std::chrono::milliseconds(9));
  EXPECT_EQ(with("VMART_PRESSURE_LIMIT_MS", "0").pressure_limit, std::chrono::milliseconds(0));
  EXPECT_EQ(with("VMART_STALL_AHEAD_MS", "0").stall_ahead, std::chrono::milliseconds(0));
  EXPECT_FALSE(with("VMART_PACE_GUARD", "0").pace_guard);
  RuntimeOptions options;
  options.pace_guard = true;
  EXPECT_TRUE(resolve_settings(options).pace_guard);
  options.stall_ahead = std::chrono::milliseconds(7);
  EXPECT_EQ(resolve_settings(options).stall_ahead, std::chrono::milliseconds(7));
}

TEST_F(SettingsTest, TakesOptionsBeforeTheEnvironment) {
  setenv("VMART_DRIVER", "sim:test-2", 1);
  setenv("VMART_DEVICES", "rubbish", 1);
  setenv("VMART_CAPACITY", "rubbish", 1);
  setenv("VMART_CACHE_BYTES_PER_GPU", "rubbish", 1);
  setenv("VMART_HOST_CACHE_BYTES", "rubbish", 1);
  setenv("VMART_HOLD_LIMIT_MS", "rubbish", 1);
  RuntimeOptions options;
  options.driver = "sim:test-4";
  options.devices = {3};
  options.capacity_bytes[gpu(3)] = MiB;
  options.cache_bytes_per_gpu = 1;
  options.host_cache_bytes = 2;
  options.hold_limit = std::chrono::milliseconds(3);
  setenv("VMART_PRESSURE_LIMIT_MS", "rubbish", 1);
  options.pressure_limit = std::chrono::milliseconds(4);
  const Settings settings = resolve_settings(options);
  EXPECT_EQ(settings.driver, "sim:test-4");
  EXPECT_EQ(settings.devices, std::vector<int>{3});
  EXPECT_EQ(settings.capacity_bytes.at(gpu(3)), MiB);
  EXPECT_EQ(settings.cache_bytes_per_gpu, 1u);
  EXPECT_EQ(settings.host_cache_bytes, 2u);
  EXPECT_EQ(settings.hold_limit, std::chrono::milliseconds(3));
  EXPECT_EQ(settings.pressure_limit, std::chrono::milliseconds(4));
}

TEST_F(SettingsTest, ControlAndTraceBringAPolicyThatMovesNothing) {
  EXPECT_EQ(resolve_settings({}).policy, "");
  EXPECT_EQ(resolve_settings({}).control, "");
  EXPECT_EQ(with("VMART_CONTROL", "off").policy, "");
  EXPECT_EQ(with("VMART_CONTROL", "auto").policy, "stay_put");
  EXPECT_EQ(resolve_settings({}).control, "auto");
  RuntimeOptions options;
  options.control = "/run/it.sock";
  options.timeline = "here.json";
  EXPECT_EQ(resolve_settings(options).control, "/run/it.sock");
  clear();
  EXPECT_EQ(with("VMART_TIMELINE", "there.json").policy, "stay_put");
  EXPECT_EQ(resolve_settings({}).timeline, "there.json");
  EXPECT_EQ(resolve_settings(options).timeline, "here.json");
  EXPECT_EQ(with("VMART_POLICY", "counter").policy, "counter");
}

TEST_F(SettingsTest, WordsTurnOutputOnAndOff) {
  EXPECT_EQ(with("VMART_TIMELINE", "0").timeline, "");
  EXPECT_EQ(resolve_settings({}).policy, "");
  EXPECT_EQ(with("VMART_TIMELINE", "1").timeline, "vmart-%p.trace.json");
  clear();
  EXPECT_EQ(with("VMART_CONTROL", "no").control, "");
  EXPECT_EQ(with("VMART_CONTROL", "yes").control, "auto");
  clear();
  EXPECT_EQ(with("VMART_RECORD", "0").record, "");
  EXPECT_EQ(resolve_settings({}).policy, "");
  EXPECT_EQ(with("VMART_RECORD", "folder").record, "folder");
  EXPECT_EQ(resolve_settings({}).policy, "stay_put");  // Recording requires a scheduler.
  clear();
  EXPECT_EQ(with("VMART_DECISIONS", "file").policy, "stay_put");
  clear();
  EXPECT_TRUE(with("VMART_DRY_RUN", "yes").dry_run);
  EXPECT_TRUE(with("VMART_OWN_CONTEXTS", "1").own_contexts);
  EXPECT_TRUE(with("VMART_PREPARE", "1").prepares_gates);
  EXPECT_TRUE(resolve_settings({}).suspends);
  EXPECT_FALSE(with("VMART_STOP", "gate").suspends);
  RuntimeOptions options;
  options.suspend = true;
  EXPECT_FALSE(resolve_settings(options).suspends) << "the driver was opened without it";
  EXPECT_TRUE(with("VMART_STOP", "suspend").suspends);
  EXPECT_FALSE(with("NV_COMPUTE_PROFILER_PERFWORKS_DIR", "/opt").suspends) << "under ncu";
  unsetenv("NV_COMPUTE_PROFILER_PERFWORKS_DIR");
  options.suspend = false;
  EXPECT_FALSE(resolve_settings(options).suspends);
  EXPECT_EQ(with("VMART_EXPORTABLE", "0").exportable, ExportTypes{});
  EXPECT_EQ(with("VMART_EXPORTABLE", "1").exportable, ExportTypes{.descriptor = true});
  EXPECT_EQ(with("VMART_EXPORTABLE", "rdma,fd").exportable,
            (ExportTypes{.descriptor = true, .fabric = false, .rdma = true}));
  EXPECT_EQ(with("VMART_EXPORTABLE", "fabric").exportable,
            (ExportTypes{.descriptor = false, .fabric = true}));
}

TEST_F(SettingsTest, NamesVariableAndValueOfWhatItRefuses) {
  const std::pair<const char*, std::vector<std::string>> malformed[] = {
      {"VMART_DEVICES", {"a", "0,", ",0", "0,,1", "0;1", "-1", "1.5", " 1", "99999999999", "0x1"}},
      {"VMART_CAPACITY",
       {"gpu0", "4GiB", "gpu0=", "=4GiB", "gpu0=4X", "gpu0=-4", "disk0=4GiB", "gpu0=4GiB,",
        "gpu0=1G,gpu(0)=2G", "gpu0==1G", "gpu0=99999999999999999999", "gpu0=16777216T"}},
      {"VMART_CACHE_BYTES_PER_GPU", {"many", "-1", "1Q", "1GB", "1 G", "0x10", "K", "1.5G"}},
      {"VMART_HOST_CACHE_BYTES", {"many", "-1", "18446744073709551616", "1gib", "G1"}},
      {"VMART_CONTROL", {"ture", "2"}},
      {"VMART_RECORD", {"1", "yes"}},
      {"VMART_DECISIONS", {"on"}},
      {"VMART_DRY_RUN", {"perhaps", "2"}},
      {"VMART_OWN_CONTEXTS", {"all", "2"}},
      {"VMART_PACE_GUARD", {"fast", "2"}},
      {"VMART_PREPARE", {"soon"}},
      {"VMART_STOP", {"hold", "1", "Gate"}},
      {"VMART_EXPORTABLE", {"fd,", "rdma,rdma", "FD", "all"}},
      {"VMART_PRESSURE_LIMIT_MS", {"soon", "-5", "1s", "86400001"}},
      {"VMART_STALL_AHEAD_MS", {"soon", "-5", "4s", "86400001"}},
      {"VMART_HOLD_LIMIT_MS", {"soon", "-5", "1s", "2.5", "86400001", "0", "99999999999999999999"}},
  };
  for (const auto& [name, values] : malformed) {
    for (const std::string& value : values) {
      SCOPED_TRACE(testing::Message() << name << "=\"" << value << "\"");
      clear();
      const Error error =
          expect_error(ErrorKind::invalid_argument, [&, n = name] { with(n, value); });
      EXPECT_TRUE(says(error, name)) << error.what();
      EXPECT_TRUE(says(error, value)) << error.what();
    }
  }
}

TEST_F(SettingsTest, SaysWhichPartOfACapacityIsWrong) {
  const std::pair<const char*, const char*> parts[] = {
      {"gpu0", "a size for gpu0, such as gpu0=60GiB"},
      {"gpu0=1G,gpu1=", "a size for gpu1, such as gpu1=60GiB"},
      {"disk0=4GiB", "a place such as gpu0 or host0 instead of \"disk0\""},
      {"gpu0=4X", "such as 60GiB, instead of \"4X\""},
      {"gpu0=1G,cuda:0=2G", "cuda:0 is there twice"},
  };
  for (const auto& [text, told] : parts) {
    const Error error =
        expect_error(ErrorKind::invalid_argument, [&] { parse_capacities(text, "--capacity"); });
    EXPECT_TRUE(says(error, "--capacity is \"" + std::string(text) + "\"")) << error.what();
    EXPECT_TRUE(says(error, told)) << error.what();
  }
}

TEST_F(SettingsTest, RefusesACopyShareThatIsNone) {
  for (const int percent : {-1, 0, 101}) {
    RuntimeOptions options;
    options.copy_share_percent = percent;
    const Error error =
        expect_error(ErrorKind::invalid_argument, [&] { resolve_settings(options); });
    EXPECT_TRUE(says(error, "copy_share_percent")) << error.what();
  }
}

TEST_F(SettingsTest, RefusesAHoldLimitThatIsNone) {
  for (const long ms : {0L, -1L, 86'400'001L}) {
    RuntimeOptions options;
    options.hold_limit = std::chrono::milliseconds(ms);
    EXPECT_TRUE(says(expect_error(ErrorKind::invalid_argument, [&] { resolve_settings(options); }),
                     std::to_string(ms)));
  }
}

TEST(ParseSize, ReadsBinarySuffixes) {
  EXPECT_EQ(parse_size("0", "x"), 0u);
  EXPECT_EQ(parse_size("4096", "x"), 4096u);
  EXPECT_EQ(parse_size("17B", "x"), 17u);
  EXPECT_EQ(parse_size("3K", "x"), 3 * KiB);
  EXPECT_EQ(parse_size("64MiB", "x"), 64 * MiB);
  EXPECT_EQ(parse_size("4G", "x"), 4 * GiB);
  EXPECT_EQ(parse_size("2TiB", "x"), 2048 * GiB);
  EXPECT_EQ(parse_size("18446744073709551615", "x"), UINT64_MAX);
  expect_error(ErrorKind::invalid_argument, [] { parse_size("", "x"); });
}

TEST_F(SettingsTest, PreparesMovesWhereMemoryMayMove) {
  EXPECT_FALSE(resolve_settings({}).prepares_gates);
  EXPECT_TRUE(resolve_settings({}).prepares_suspensions) << "the program may move it itself";
  EXPECT_TRUE(with("VMART_POLICY", "counter").prepares_gates);
  EXPECT_FALSE(with("VMART_PREPARE", "0").prepares_gates);
  EXPECT_FALSE(resolve_settings({}).prepares_suspensions);
  unsetenv("VMART_PREPARE");
  EXPECT_FALSE(with("VMART_DRY_RUN", "1").prepares_gates);
  EXPECT_FALSE(with("VMART_POLICY", "stay_put").prepares_gates);
  EXPECT_FALSE(resolve_settings({}).prepares_suspensions);
  RuntimeOptions options;
  options.prepare = true;
  EXPECT_TRUE(resolve_settings(options).prepares_gates);
}

TEST_F(SettingsTest, TakesOutputOptionsAsFileNames) {
  RuntimeOptions options;
  options.control = "my.sock";
  options.timeline = "auto";
  EXPECT_EQ(resolve_settings(options).control, "./my.sock");
  EXPECT_EQ(resolve_settings(options).timeline, "auto") << "a file; the word is the variable's";
  options.control = "auto";
  EXPECT_EQ(resolve_settings(options).control, "auto");
}

}  // namespace
}  // namespace vma
