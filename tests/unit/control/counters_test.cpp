// Goal: a counter has one name. Method: what the control socket answers, what Prometheus reads and
// what the guide says are compared with the table that the library publishes.
#include "control/control_json.hpp"
#include "control/prometheus.hpp"

#include "unit/control/fake_control_target.hpp"

#include <vma/counters.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace vma {
namespace {

constexpr const char* units[] = {"", "bytes", "bytes/s", "ratio", "s"};

/// A family of Prometheus's text: its name by its type and help.
std::map<std::string, std::string> families(const std::string& text) {
  std::map<std::string, std::string> helps;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    constexpr std::string_view mark = "# HELP ";
    if (!line.starts_with(mark)) continue;
    const std::size_t space = line.find(' ', mark.size());
    helps[line.substr(mark.size(), space - mark.size())] = line.substr(space + 1);
  }
  return helps;
}

/// The rows that the guide should have, as the table and Prometheus's text say.
class GuideRows {
 public:
  GuideRows() {
    FakeControlTarget target;
    ControlStats stats = target.stats();
    GpuLoad all{gpu(0), 1, 1, 1, 1, 1, 1, 1, 1};
    stats.runtime.loads = {GpuLoads::State::on, "", std::chrono::seconds(1), {all}};
    families_ = families(prometheus_text(stats));
    add<RuntimeStats>("");
    add<RuntimeStats::PlaceStats>("");
    add<GpuLoad>("gpu_");
    add<SchedulerStats>("scheduler_");
  }
  const std::vector<std::string>& rows() const { return rows_; }

 private:
  template <typename Stats>
  void add(const std::string& prefix) {
    for_each_counter<Stats>([&](const auto& counter) {
      const std::string begin = "vmart_" + prefix + counter.name;
      std::vector<std::string> found;
      for (const auto& [family, help] : families_) {
        if (help == counter.help && family.starts_with(begin)) found.push_back(family);
      }
      // Two may have the same help, and one name may begin like another.
      ASSERT_FALSE(found.empty()) << begin << " is not in Prometheus's text";
      rows_.push_back(fmt::format("| `{}` | {} | `{}` | {} |", counter.name,
                                  units[static_cast<int>(counter.unit)], found.front(),
                                  counter.help));
    });
  }
  std::map<std::string, std::string> families_;
  std::vector<std::string> rows_;
};

TEST(Counters, TheGuideListsEachAndNoOther) {
  const GuideRows expected;
  std::ifstream guide(VMART_CONTROL_DOCUMENT);
  std::vector<std::string> rows;
  bool inside = false;
  for (std::string line; std::getline(guide, line);) {
    if (line.starts_with("## ")) inside = line == "## Counters";
    if (inside && line.starts_with("| `")) rows.push_back(line);
  }
  std::string text;
  for (const std::string& row : expected.rows()) text += row + "\n";
  EXPECT_EQ(rows, expected.rows()) << "docs/guide/control.md, Counters, should have these rows:\n"
                                   << text;
}

template <typename Stats>
std::set<std::string> names() {
  std::set<std::string> names;
  for_each_counter<Stats>([&](const auto& counter) {
    EXPECT_TRUE(names.insert(counter.name).second) << counter.name << " is there twice";
  });
  return names;
}

std::set<std::string> keys(const boost::json::object& object,
                           const std::set<std::string>& others = {}) {
  std::set<std::string> keys;
  for (const auto& [key, value] : object) {
    if (!others.contains(key)) keys.emplace(key);
  }
  return keys;
}

TEST(Counters, TheSocketAnswersEachByItsName) {
  FakeControlTarget target;
  const boost::json::object stats = to_json(target.stats());
  const boost::json::object& runtime = stats.at("runtime").as_object();
  EXPECT_EQ(keys(runtime, {"places", "loads"}), names<RuntimeStats>());
  EXPECT_EQ(keys(runtime.at("places").as_array().at(0).as_object(), {"at"}),
            names<RuntimeStats::PlaceStats>());
  EXPECT_EQ(keys(stats.at("scheduler").as_object()), names<SchedulerStats>());
  for (const std::string& name :
       keys(runtime.at("loads").at("gpus").as_array().at(0).as_object(), {"at"})) {
    EXPECT_TRUE(names<GpuLoad>().contains(name)) << name;
  }
}

}  // namespace
}  // namespace vma
