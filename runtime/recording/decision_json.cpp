#include "recording/decision_json.hpp"

#include "machine/json_reader.hpp"

#include <vma/error.hpp>

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>

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
  if (json.has("from")) decision.from = parse_location(json.text("from"));
  if (json.has("to")) decision.to = parse_location(json.text("to"));
  decision.wish = text_or_none(json, "wish");
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
  if (!decision.wish.empty()) json["wish"] = legible(decision.wish);
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

}  // namespace vma
