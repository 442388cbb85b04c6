#include "recording/decision_log.hpp"

#include "base/check.hpp"
#include "base/json.hpp"
#include "base/log.hpp"

#include <vma/error.hpp>

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <system_error>
#include <utility>

namespace vma {
namespace {

/// Length in bytes of the UTF-8 character at the start of `text`; 0 if it is invalid.
std::size_t character_bytes(std::string_view text) {
  const auto at = [&text](std::size_t index) { return static_cast<unsigned char>(text[index]); };
  const unsigned first = at(0);
  if (first < 0x80) return 1;
  const std::size_t bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < bytes) return 0;
  for (std::size_t index = 1; index < bytes; ++index) {
    if ((at(index) & 0xC0) != 0x80) return 0;
  }
  // Rejects overlong forms, surrogates, and code points beyond the last one.
  const unsigned second = at(1);
  const bool bad = (first == 0xE0 && second < 0xA0) || (first == 0xED && second >= 0xA0) ||
                   (first == 0xF0 && second < 0x90) || (first == 0xF4 && second >= 0x90);
  return bad ? 0 : bytes;
}

boost::json::string legible(std::string_view text) {
  boost::json::string result;
  while (!text.empty()) {
    const std::size_t bytes = character_bytes(text);
    if (bytes == 0) result.push_back('?');
    result.append(boost::json::string_view(text.data(), bytes));
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return result;
}

boost::json::object times(const MoveTimes& times) {
  return {{"move_ns", times.move.count()}, {"stall_ns", times.stall.count()}};
}

std::uint64_t whole(JsonReader& json, std::string_view key) {
  boost::system::error_code failed;
  const boost::json::value& value = json.at(key);
  const auto result = value.is_number() ? value.to_number<std::uint64_t>(failed) : 0;
  if (!value.is_number() || failed) json.refuse(key, "is not a whole number");
  return result;
}

Time time(JsonReader& json, std::string_view key) {
  return Time(json.integer(key, INT64_MIN, INT64_MAX));
}

std::string text_or_none(JsonReader& json, std::string_view key) {
  if (!json.has(key)) return {};
  return json.text(key);
}

std::uint64_t address(JsonReader& json, std::string_view key) {
  const std::string text = json.text(key);
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  if (!text.starts_with("0x") || std::from_chars(text.data() + 2, end, value, 16).ptr != end) {
    json.refuse(key, "is not an address");
  }
  return value;
}

DecidedChunk chunk(JsonReader json) {
  DecidedChunk chunk;
  chunk.allocation = whole(json, "allocation");
  chunk.begin = address(json, "begin");
  chunk.slot = static_cast<std::uint32_t>(json.integer("slot", 0, UINT32_MAX));
  chunk.bytes = whole(json, "bytes");
  chunk.tag = text_or_none(json, "tag");
  json.finish();
  return chunk;
}

MoveTimes times(JsonReader json) {
  const MoveTimes times{time(json, "move_ns"), time(json, "stall_ns")};
  json.finish();
  return times;
}

Decision decision(JsonReader json) {
  Decision decision;
  decision.sequence = whole(json, "sequence");
  decision.time = time(json, "time_ns");
  const auto kind = parse_decision_kind(json.text("kind"));
  if (!kind) json.refuse("kind", "is not a known value");
  decision.kind = *kind;
  decision.plan = json.has("plan") ? whole(json, "plan") : 0;
  decision.policy = text_or_none(json, "policy");
  if (json.has("chunk")) decision.chunk = chunk(json.object("chunk"));
  if (json.has("from")) decision.from = parse_place(json.text("from"));
  if (json.has("to")) decision.to = parse_place(json.text("to"));
  decision.why = text_or_none(json, "why");
  decision.reason = text_or_none(json, "reason");
  decision.value = json.at("value").is_null() ? std::numeric_limits<double>::quiet_NaN()
                                              : json.number("value", -HUGE_VAL, HUGE_VAL);
  decision.victim = json.flag("victim", false);
  if (json.has("predicted")) decision.predicted = times(json.object("predicted"));
  if (json.has("happened")) decision.happened = times(json.object("happened"));
  if (json.has("began_ns")) decision.began = time(json, "began_ns");
  if (json.has("ended_ns")) decision.ended = time(json, "ended_ns");
  json.finish();
  return decision;
}

constexpr std::size_t block_bytes = std::size_t{64} << 10;

}  // namespace

std::string to_json_line(const Decision& decision) {
  boost::json::object json;
  json["sequence"] = decision.sequence;
  json["time_ns"] = decision.time.count();
  const std::string_view kind = to_string(decision.kind);
  json["kind"] = boost::json::string(kind.data(), kind.size());
  if (decision.plan != 0) json["plan"] = decision.plan;
  if (!decision.policy.empty()) json["policy"] = legible(decision.policy);
  if (decision.chunk) {
    boost::json::object& chunk = json["chunk"].emplace_object();
    chunk["allocation"] = decision.chunk->allocation;
    chunk["begin"] = fmt::format("{:#x}", decision.chunk->begin);
    chunk["slot"] = decision.chunk->slot;
    chunk["bytes"] = decision.chunk->bytes;
    if (!decision.chunk->tag.empty()) chunk["tag"] = legible(decision.chunk->tag);
  }
  if (decision.from) json["from"] = to_string(*decision.from);
  if (decision.to) json["to"] = to_string(*decision.to);
  if (!decision.why.empty()) json["why"] = legible(decision.why);
  if (!decision.reason.empty()) json["reason"] = legible(decision.reason);
  // JSON cannot represent numbers that are not finite.
  json["value"] = std::isfinite(decision.value) ? boost::json::value(decision.value) : nullptr;
  if (decision.victim) json["victim"] = true;
  if (decision.predicted) json["predicted"] = times(*decision.predicted);
  if (decision.happened) json["happened"] = times(*decision.happened);
  if (decision.began) json["began_ns"] = decision.began->count();
  if (decision.ended) json["ended_ns"] = decision.ended->count();
  return boost::json::serialize(json);
}

Decision parse_decision(std::string_view line) {
  boost::system::error_code failed;
  const boost::json::value json =
      boost::json::parse(boost::json::string_view(line.data(), line.size()), failed);
  if (failed) throw Error(ErrorKind::invalid_argument, "parse_decision", failed.message());
  return decision(JsonReader(json, "decision", "", "parse_decision"));
}

DecisionFile::DecisionFile(std::string path, std::uint64_t bytes_max)
    : path_(std::move(path)), full_path_(path_ + ".1"), bytes_max_(bytes_max) {}

/// Counts a failure, logs the first one, and returns false.
bool DecisionFile::failed(int error) noexcept {
  if (failures_.fetch_add(1, std::memory_order_relaxed) == 0) {
    log(LogLevel::warn, "cannot write decisions to {}: {}; lost entries are counted", path_,
        std::system_category().message(error));
  }
  return false;
}

/// Whether the file is open and has room for `bytes` more. If a full file cannot be renamed,
/// nothing more is written to it, so that the limit holds.
bool DecisionFile::ready(std::size_t bytes) noexcept {
  if (file_.is_gone()) file_.close();
  if (!file_.is_open()) {
    const int error = file_.open(path_, OutputFile::Existing::append);
    if (error != 0) return failed(error);
  }
  const bool full = file_.size_bytes() > 0 && file_.size_bytes() + bytes > bytes_max_;
  if (!file_.is_regular() || !full) return true;
  if (std::rename(path_.c_str(), full_path_.c_str()) != 0) return failed(errno);
  const int error = file_.open(path_, OutputFile::Existing::append);
  return error == 0 || failed(error);
}

void DecisionFile::write(const DiskBlock& block, const Loss&) noexcept {
  if (ready(block.bytes.size())) {
    const int error = file_.write(block.bytes);
    if (error == 0) return;
    failed(error);
    if (!file_.is_regular()) file_.close();  // A pipe may have another reader next time.
  }
  lost_.fetch_add(block.records, std::memory_order_relaxed);
}

void DecisionFile::finish(const Loss&) noexcept {
  file_.close();
}

DecisionLog::DecisionLog(Executor& executor, const DecisionLogOptions& options)
    : decisions_max_(options.decisions_max), flush_period_(options.flush_period) {
  VMART_CHECK(decisions_max_ > 0, "the log keeps at least one entry");
  if (options.file.empty()) return;
  file_ = std::make_unique<DecisionFile>(options.file, options.file_bytes_max);
  queue_ = std::make_unique<BlockQueue>(executor, "vmart decisions", *file_, options.blocks_max);
}

DecisionLog::DecisionLog(Executor& executor, const DecisionLogOptions& options, BlockSink& sink)
    : decisions_max_(options.decisions_max),
      flush_period_(options.flush_period),
      queue_(std::make_unique<BlockQueue>(executor, "vmart decisions", sink, options.blocks_max)) {
  VMART_CHECK(decisions_max_ > 0, "the log keeps at least one entry");
}

DecisionLog::~DecisionLog() {
  const MutexLock lock(mutex_);
  hand_over();
}

std::uint64_t DecisionLog::add(Decision& decision) {
  clip(decision);
  const MutexLock lock(mutex_);
  decision.sequence = ++last_;
  keep(decision);
  if (queue_) add_line(decision);
  return decision.sequence;
}

void DecisionLog::keep(const Decision& decision) {
  const bool refused = decision.kind == DecisionKind::refused;
  if (refused) {
    const std::optional<std::uint64_t> number = refusals_.entry_of(decision);
    const auto known =
        number ? std::ranges::lower_bound(kept_, *number, {}, &Decision::sequence) : kept_.end();
    if (known != kept_.end() && known->sequence == *number) {
      ++known->times;
      known->last_time = decision.time;
      known->why = decision.why;
      known->reason = decision.reason;
      known->value = decision.value;
      return;
    }
    refusals_.begin(decision, decision.sequence);
  } else {
    refusals_.end(decision);
  }
  kept_.push_back(decision);
  if (kept_.size() > decisions_max_) kept_.pop_front();
}

void DecisionLog::add_line(const Decision& decision) {
  const std::string line = to_json_line(decision);
  if (lines_.bytes.size() + line.size() + 1 > block_bytes) hand_over();
  lines_.bytes.insert(lines_.bytes.end(), line.begin(), line.end());
  lines_.bytes.push_back('\n');
  ++lines_.records;
}

void DecisionLog::hand_over() noexcept {
  if (lines_.records > 0) queue_->offer(std::exchange(lines_, DiskBlock{}));
}

void DecisionLog::flush(Time now) noexcept {
  const MutexLock lock(mutex_);
  if (now - flushed_ < flush_period_) return;
  flushed_ = now;
  hand_over();
}

bool DecisionLog::write_all(TimePoint deadline) noexcept {
  {
    const MutexLock lock(mutex_);
    hand_over();
  }
  return !queue_ || queue_->flush_until(deadline);
}

std::vector<Decision> DecisionLog::since(std::uint64_t sequence, std::size_t decisions_max) const {
  const MutexLock lock(mutex_);
  const auto from = std::ranges::lower_bound(kept_, sequence, {}, &Decision::sequence);
  const auto count =
      std::min<std::size_t>(decisions_max, static_cast<std::size_t>(kept_.end() - from));
  return {from, from + static_cast<std::ptrdiff_t>(count)};
}

std::vector<Decision> DecisionLog::about(std::uint64_t allocation,
                                         std::optional<std::uint32_t> slot,
                                         std::size_t decisions_max) const {
  std::vector<Decision> found;
  const MutexLock lock(mutex_);
  for (auto at = kept_.rbegin(); at != kept_.rend() && found.size() < decisions_max; ++at) {
    const bool is_about =
        at->chunk && at->chunk->allocation == allocation && (!slot || at->chunk->slot == *slot);
    if (is_about) found.push_back(*at);
  }
  std::reverse(found.begin(), found.end());
  return found;
}

DecisionLogStats DecisionLog::stats() const {
  DecisionLogStats stats;
  if (queue_) stats.lines_lost = queue_->dropped().records;
  if (file_) {
    stats.lines_lost += file_->lines_lost();
    stats.write_failures = file_->failures();
  }
  const MutexLock lock(mutex_);
  stats.decisions = last_;
  return stats;
}

}  // namespace vma
