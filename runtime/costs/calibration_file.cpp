#include "costs/calibration_file.hpp"

#include "base/environment.hpp"
#include "base/json.hpp"
#include "base/log.hpp"
#include "base/whole_file.hpp"
#include "costs/costs_json.hpp"

#include <boost/json/serialize.hpp>
#include <boost/json/stream_parser.hpp>
#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace vma {
namespace {

namespace json = boost::json;

constexpr const char* call = "vma::calibrate";
constexpr const char* format_name = "vmart calibration";
constexpr std::int64_t format_version = 1;
constexpr const char* late_wait_key = "late_wait_ns";
constexpr const char* late_stall_key = "late_stall_ns";
constexpr std::size_t places_max = 256;  // The largest number that `PlaceId` can hold.
constexpr std::uintmax_t file_bytes_max = 64 << 20;
constexpr std::int64_t late_ns_max = 1'000'000'000'000;

[[noreturn]] void refuse(const std::string& file, const std::string& reason) {
  throw Error(ErrorKind::invalid_argument, call, fmt::format("{}: {}", file, reason));
}

/// Zero if missing, as in older files.
LateStops read_late(JsonReader& reader) {
  const LateStops late{Time(reader.integer_or(late_wait_key, 0, 0, late_ns_max)),
                       Time(reader.integer_or(late_stall_key, 0, 0, late_ns_max))};
  if (late.wait == Time::zero() && late.longer > Time::zero())
    reader.refuse(late_stall_key, "is given without a wait");
  return late;
}

std::vector<std::string> read_texts(JsonReader& reader, const char* key) {
  std::vector<std::string> texts;
  for (const json::value& entry : reader.list(key)) {
    if (!entry.is_string()) reader.refuse(key, "has an entry that is not a string");
    texts.emplace_back(entry.get_string());
  }
  return texts;
}

std::size_t read_places(JsonReader& reader, std::vector<Place>& places) {
  for (const std::string& text : read_texts(reader, "places")) {
    places.push_back(parse_place(text));
  }
  std::size_t gpus = 0;
  while (gpus < places.size() && places[gpus].kind == Place::Kind::gpu) ++gpus;
  if (places.empty() || places.size() > places_max)
    reader.refuse("places", "are empty or too many");
  return gpus;
}

json::value parse(std::string_view text, const std::string& file) {
  json::stream_parser parser;
  boost::system::error_code failed;
  parser.write(text.data(), text.size(), failed);
  if (!failed) parser.finish(failed);
  if (failed) refuse(file, "is not valid JSON: " + failed.message());
  return parser.release();
}

}  // namespace

std::string calibration_folder() {
  const auto variable = [](const char* name) {
    const char* const text = environment_variable(name);
    return std::string(text == nullptr ? "" : text);
  };
  if (const auto own = environment_text("VMART_CACHE_DIR")) return *own;
  if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty()) return cache + "/vmart";
  const std::string home = variable("HOME");
  return home.empty() ? "" : home + "/.cache/vmart";
}

std::string to_json(const Calibration& calibration) {
  json::object object;
  object["format"] = format_name;
  object["version"] = format_version;
  object["machine"] = calibration.machine;
  object["date"] = calibration.date;
  json::array places, estimates;
  for (const Place at : calibration.places) places.emplace_back(to_string(at));
  for (const std::string& text : calibration.estimates) estimates.emplace_back(text);
  object["places"] = std::move(places);
  object["estimates"] = std::move(estimates);
  write_costs(object, calibration.costs, CostsIn::calibration);
  write_gaps(object, calibration.gaps);
  write_peer_links(object, calibration.peers);
  object[late_wait_key] = calibration.late.wait.count();
  object[late_stall_key] = calibration.late.longer.count();
  return json::serialize(object) + "\n";
}

Calibration parse_calibration(std::string_view text, const std::string& file) {
  const json::value value = parse(text, file);
  JsonReader reader(value, file, "", call);
  if (!reader.has("format") || reader.text("format") != format_name) {
    reader.refuse("format", "it is not a vmart calibration");
  }
  reader.integer("version", format_version, format_version);
  Calibration calibration;
  calibration.machine = reader.text("machine");
  calibration.date = reader.text("date");
  calibration.estimates = read_texts(reader, "estimates");
  const std::size_t gpus = read_places(reader, calibration.places);
  calibration.costs = MachineCosts(gpus, calibration.places.size());
  read_costs(reader, calibration.costs, CostsIn::calibration);
  calibration.gaps = read_gaps(reader, gpus);
  calibration.peers = read_peer_links(reader, gpus);
  calibration.late = read_late(reader);
  reader.finish();
  calibration.file = file;
  return calibration;
}

Calibration read_calibration(const std::string& file) {
  std::error_code failed;
  const std::uintmax_t size = std::filesystem::file_size(file, failed);
  if (failed) refuse(file, failed.message());
  if (size > file_bytes_max) refuse(file, "is too large for a calibration");
  std::ifstream stream(file);
  std::ostringstream text;
  if (stream) text << stream.rdbuf();
  if (!stream) refuse(file, "cannot be read");
  return parse_calibration(text.str(), file);
}

void write_calibration(const std::string& file, const Calibration& calibration) {
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  std::error_code failed;
  if (!folder.empty()) std::filesystem::create_directories(folder, failed);
  if (failed) refuse(file, failed.message());
  WholeFile whole(file, {.call = call});
  whole.write(to_json(calibration));
  whole.become(file);
}

std::optional<Calibration> stored_calibration(const std::string& folder,
                                              const std::string& fingerprint) {
  if (folder.empty()) return std::nullopt;
  const std::string file = folder + "/" + calibration_file_name(fingerprint);
  std::error_code failed;
  if (!std::filesystem::exists(file, failed)) return std::nullopt;
  try {
    Calibration calibration = read_calibration(file);
    if (calibration.machine == fingerprint) return calibration;
    log(LogLevel::warn,
        "the calibration {} is of another machine and is ignored; run vmart calibrate", file);
  } catch (const std::exception& error) {
    log(LogLevel::warn, "ignored a calibration: {}", error.what());
  }
  return std::nullopt;
}

std::string machine_fingerprint(Driver& driver, const Topology& topology) {
  std::string text = driver.description();
  for (const DeviceId device : topology.devices()) {
    const DeviceInfo& info = topology.info(device);
    text += fmt::format("; {} {} {}", to_string(gpu(index(device))), info.name, info.uuid);
  }
  text += "; links";
  for (const DeviceId from : topology.devices()) {
    text += ' ';
    for (const DeviceId to : topology.devices()) {
      const bool reaches = topology.reaches(from, gpu(index(to)));
      text += fmt::format("{}", reaches ? static_cast<int>(topology.link(from, to).kind) : 9);
    }
  }
  return text +
         fmt::format("; {} host nodes", topology.places().size() - topology.devices().size());
}

std::string calibration_file_name(const std::string& fingerprint) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a. The file also contains the full text.
  for (const char letter : fingerprint) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  }
  return fmt::format("calibration-{:016x}.json", hash);
}

}  // namespace vma
