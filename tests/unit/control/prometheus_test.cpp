// Goal: the output for Prometheus follows its text format exactly. Method: a strict parser of the
// format, which is itself shown to reject errors.
#include "control/prometheus.hpp"

#include "unit/control/fake_control_target.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

namespace vma {
namespace {

/// Parses a page; `error` says what is wrong with it and is empty if nothing is.
struct PrometheusPage {
  explicit PrometheusPage(const std::string& text) {
    if (text.empty() || text.back() != '\n') error = "no newline at the end";
    std::istringstream lines(text);
    for (std::string line; error.empty() && std::getline(lines, line);) {
      take(line);
      if (!error.empty()) error += ": " + line;
    }
  }

  std::map<std::string, std::string> types;  // Keyed by family.
  std::map<std::string, double> samples;     // Keyed by name and labels, as written.
  std::string error;

 private:
  void take(const std::string& line) {
    static const std::regex help("# HELP ([a-z_:][a-z0-9_:]*) (\\S.*)");
    static const std::regex type("# TYPE ([a-z_:][a-z0-9_:]*) (counter|gauge|summary)");
    std::smatch match;
    if (std::regex_match(line, match, help)) {
      if (!helps_.insert(match[1]).second) error = "a second HELP";
      family_ = match[1];
    } else if (std::regex_match(line, match, type)) {
      if (match[1] != family_) error = "TYPE does not follow its HELP";
      if (!types.emplace(match[1], match[2]).second) error = "a second TYPE";
    } else {
      take_sample(line);
    }
  }
  void take_sample(const std::string& line) {
    static const std::regex sample(
        "([a-z_:][a-z0-9_:]*)"
        "(\\{[a-z_]+=\"(?:[^\"\\\\\n]|\\\\[\\\\\"n])*\"\\})?"
        " ([-+]?[0-9.]+(?:e[-+]?[0-9]+)?|NaN|[-+]Inf)");
    std::smatch match;
    if (!std::regex_match(line, match, sample)) return void(error = "no sample");
    const std::string name = match[1];
    const bool summary = types[family_] == "summary";
    if (name != family_ && !(summary && name == family_ + "_count")) error = "of another family";
    if (types[family_].empty()) error = "without TYPE";
    if (!name.starts_with("vmart_")) error = "not ours";
    if (types[family_] == "counter") {
      if (!name.ends_with("_total")) error = "a counter's name ends in _total";
      if (match[3].str()[0] == '-') error = "a negative counter";
    }
    if (!samples.emplace(name + match[2].str(), std::strtod(match[3].str().c_str(), nullptr))
             .second) {
      error = "a second sample of one name and labels";
    }
  }
  std::set<std::string> helps_;
  std::string family_;
};

TEST(Prometheus, WritesTheTextFormat) {
  FakeControlTarget target;
  const PrometheusPage page(prometheus_text(target.stats()));
  EXPECT_EQ(page.error, "");
  EXPECT_GT(page.samples.size(), 30U);
  EXPECT_EQ(page.samples.at("vmart_capacity_bytes{place=\"gpu(0)\"}"), 100.0 * 1024 * 1024);
  EXPECT_EQ(page.samples.at("vmart_bytes_moved_total"), 3e9);
  EXPECT_EQ(page.samples.at("vmart_stall_seconds{quantile=\"0.99\"}"), 0.002);
  EXPECT_EQ(page.samples.at("vmart_stall_seconds_count"), 4);
  EXPECT_EQ(page.samples.at("vmart_scheduler_moves_refused_total{reason=\"cooldown\"}"), 5);
  EXPECT_EQ(page.samples.at("vmart_scheduler_prediction_error_ratio"), 0.0625);
}

TEST(Prometheus, HasWhatNvmlSaysAndNoMore) {
  FakeControlTarget target;
  const PrometheusPage page(prometheus_text(target.stats()));
  EXPECT_EQ(page.samples.at("vmart_nvml_on"), 1);
  EXPECT_EQ(page.samples.at("vmart_nvml_sample_age_seconds"), 0.25);
  EXPECT_EQ(page.samples.at("vmart_gpu_kernels_ratio{place=\"gpu(1)\"}"), 0.5);
  EXPECT_EQ(page.samples.at("vmart_gpu_memory_used_bytes{place=\"gpu(1)\"}"), 30.0 * 1024 * 1024);
  EXPECT_EQ(page.samples.at("vmart_gpu_nvlink_sent_bytes_s{place=\"gpu(1)\"}"), 2e9);
  EXPECT_FALSE(page.types.contains("vmart_gpu_pcie_sent_bytes_s")) << "it is not known";
  const PrometheusPage off(prometheus_text(ControlStats{}));
  EXPECT_EQ(off.error, "");
  EXPECT_EQ(off.samples.at("vmart_nvml_on"), 0);
  EXPECT_FALSE(off.types.contains("vmart_gpu_kernels_ratio"));
  EXPECT_FALSE(off.types.contains("vmart_nvml_sample_age_seconds"));
}

TEST(Prometheus, EscapesLabels) {
  FakeControlTarget target;
  const PrometheusPage page(prometheus_text(target.stats()));
  EXPECT_EQ(page.samples.at("vmart_gates_given_up_by_reason_total"
                            "{reason=\"a \\\"quoted\\\" \\\\ reason\\nof two lines\"}"),
            3);
}

TEST(Prometheus, WritesValuesThatAreNoNumbers) {
  ControlStats stats;
  stats.scheduler.prediction_error = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(PrometheusPage(prometheus_text(stats)).error, "");
  stats.scheduler.prediction_error = std::numeric_limits<double>::infinity();
  EXPECT_NE(prometheus_text(stats).find("vmart_scheduler_prediction_error_ratio +Inf\n"),
            std::string::npos);
}

TEST(Prometheus, HasAReaderThatRefusesWhatIsWrong) {
  const std::string good = "# HELP vmart_a_total A.\n# TYPE vmart_a_total counter\n";
  EXPECT_EQ(PrometheusPage(good + "vmart_a_total 1\n").error, "");
  for (const std::string& bad :
       {good + "vmart_a_total 1", good + "vmart_a_total one\n", good + "vmart_b_total 1\n",
        good + "vmart_a_total -1\n", good + "vmart_a_total{x=\"a\"b\"} 1\n",
        good + "vmart_a_total{x=\"\\t\"} 1\n", good + "vmart_a_total 1\nvmart_a_total 2\n",
        good + good, std::string("vmart_a_total 1\n"), good + "vmart_a_total  1\n"}) {
    EXPECT_NE(PrometheusPage(bad).error, "") << bad;
  }
}

}  // namespace
}  // namespace vma
