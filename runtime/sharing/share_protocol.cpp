#include "sharing/share_protocol.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>

namespace vma {
namespace {

constexpr std::uint32_t share_magic = 0x68536d76;  // "vmSh" in memory.

Error malformed(std::string_view what) {
  return Error(ErrorKind::peer_failure, import_call,
               fmt::format("the other process sent a malformed message: {}", what));
}

/// Both processes run on one machine: numbers are in its byte order.
class ShareWriter {
 public:
  template <typename Number>
  void number(Number value) {
    const auto* const begin = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), begin, begin + sizeof value);
  }
  void text(std::string_view text) {
    const std::string_view cut = text.substr(0, shared_text_bytes_max);
    number(static_cast<std::uint32_t>(cut.size()));
    const auto* const begin = reinterpret_cast<const std::byte*>(cut.data());
    bytes_.insert(bytes_.end(), begin, begin + cut.size());
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

class ShareReader {
 public:
  explicit ShareReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename Number>
  Number number() {
    Number value{};
    const std::span<const std::byte> from = next(sizeof value);
    std::memcpy(&value, from.data(), sizeof value);
    return value;
  }
  std::string text() {
    const auto size = number<std::uint32_t>();
    if (size > shared_text_bytes_max) throw malformed("a text is too long");
    const std::span<const std::byte> from = next(size);
    return {reinterpret_cast<const char*>(from.data()), from.size()};
  }
  void end() const {
    if (!bytes_.empty()) throw malformed("it is too long");
  }

 private:
  std::span<const std::byte> next(std::size_t size) {
    if (size > bytes_.size()) throw malformed("it is too short");
    const std::span<const std::byte> taken = bytes_.first(size);
    bytes_ = bytes_.subspan(size);
    return taken;
  }
  std::span<const std::byte> bytes_;
};

void write_chunks(ShareWriter& writer, const ShareMessage& message) {
  writer.number(message.first);
  writer.number(static_cast<std::uint32_t>(message.chunks.size()));
  for (const SharedChunk& chunk : message.chunks) {
    writer.text(chunk.at.gpu);
    writer.number(chunk.at.node);
    writer.number(chunk.size_bytes);
    writer.number(chunk.slot);
  }
}

void read_chunks(ShareReader& reader, ShareMessage& message) {
  message.first = reader.number<std::uint64_t>();
  const auto count = reader.number<std::uint32_t>();
  if (count == 0 || count > chunks_in_message_max) throw malformed("the number of chunks");
  for (std::uint32_t i = 0; i < count; ++i) {
    SharedChunk chunk;
    chunk.at.gpu = reader.text();
    chunk.at.node = reader.number<std::uint32_t>();
    chunk.size_bytes = reader.number<std::uint64_t>();
    chunk.slot = reader.number<std::uint64_t>();
    message.chunks.push_back(std::move(chunk));
  }
}

constexpr std::uint32_t version_of(ShareKind kind) {
  return kind == ShareKind::hello ? share_version : share_version_oldest;
}

void write_gpus(ShareWriter& writer, const ShareMessage& message) {
  writer.number(static_cast<std::uint32_t>(message.gpus.size()));
  for (const std::string& gpu : message.gpus) writer.text(gpu);
}

void read_gpus(ShareReader& reader, ShareMessage& message) {
  const auto count = reader.number<std::uint32_t>();
  if (count > gpus_in_hello_max) throw malformed("the number of GPUs");
  for (std::uint32_t i = 0; i < count; ++i) message.gpus.push_back(reader.text());
}

void write_move(ShareWriter& writer, const ShareMessage& message) {
  writer.number(message.first);
  writer.number(std::int64_t{message.limit.count()});
  writer.number(std::int64_t{message.decision_limit.count()});
}

void read_move(ShareReader& reader, ShareMessage& message) {
  message.first = reader.number<std::uint64_t>();
  const auto limit_ms = reader.number<std::int64_t>();
  const auto decision_ms = reader.number<std::int64_t>();
  constexpr std::int64_t most_ms = std::chrono::milliseconds(std::chrono::days(7)).count();
  if (message.first == 0 || message.first > shared_slots_max || limit_ms <= 0 || decision_ms <= 0 ||
      limit_ms > most_ms || decision_ms > most_ms) {
    throw malformed("the terms of a move");
  }
  message.limit = std::chrono::milliseconds(limit_ms);
  message.decision_limit = std::chrono::milliseconds(decision_ms);
}

void read_offer(ShareReader& reader, ShareMessage& message) {
  Geometry& geometry = message.geometry;
  geometry.chunk_bytes = reader.number<std::uint64_t>();
  geometry.tail_bytes = reader.number<std::uint64_t>();
  const auto slots = reader.number<std::uint64_t>();
  if (slots == 0 || slots > shared_slots_max || geometry.tail_bytes == 0 ||
      geometry.tail_bytes > geometry.chunk_bytes || geometry.chunk_bytes > UINT64_MAX / slots) {
    throw malformed("the sizes of the memory");
  }
  geometry.slots = slots;
  message.tag = reader.text();
}

}  // namespace

std::vector<std::byte> encode(const ShareMessage& message) {
  ShareWriter writer;
  writer.number(share_magic);
  writer.number(version_of(message.kind));
  writer.number(message.kind);
  switch (message.kind) {
    case ShareKind::hello: write_gpus(writer, message); break;
    case ShareKind::ready:
    case ShareKind::done:
    case ShareKind::stop:
    case ShareKind::stopped: break;
    case ShareKind::ended: writer.number(std::int64_t{message.stall.count()}); break;
    case ShareKind::move: write_move(writer, message); break;
    case ShareKind::ask: writer.number(message.first); break;
    case ShareKind::chunks: write_chunks(writer, message); break;
    case ShareKind::offer:
      writer.number(message.geometry.chunk_bytes);
      writer.number(message.geometry.tail_bytes);
      writer.number(std::uint64_t{message.geometry.slots});
      writer.text(message.tag);
      break;
    case ShareKind::refusal:
      writer.number(static_cast<std::uint32_t>(message.error));
      writer.text(message.text);
      break;
  }
  return writer.take();
}

ShareMessage decode(std::span<const std::byte> bytes) {
  ShareReader reader(bytes);
  if (reader.number<std::uint32_t>() != share_magic) throw malformed("it is none of vmart");
  const auto version = reader.number<std::uint32_t>();
  if (version < share_version_oldest || version > share_version) {
    throw Error(ErrorKind::unsupported, import_call,
                fmt::format("the other process shares memory by version {} of the protocol, this "
                            "one by version {}; use the same vmart in both",
                            version, share_version));
  }
  ShareMessage message;
  message.kind = reader.number<ShareKind>();
  switch (message.kind) {
    case ShareKind::hello:
      if (version == share_version) read_gpus(reader, message);
      break;
    case ShareKind::ready:
    case ShareKind::done:
    case ShareKind::stop:
    case ShareKind::stopped: break;
    case ShareKind::ended:
      message.stall = std::chrono::nanoseconds(reader.number<std::int64_t>());
      break;
    case ShareKind::move: read_move(reader, message); break;
    case ShareKind::ask: message.first = reader.number<std::uint64_t>(); break;
    case ShareKind::chunks: read_chunks(reader, message); break;
    case ShareKind::offer: read_offer(reader, message); break;
    case ShareKind::refusal: {
      const auto error = reader.number<std::uint32_t>();
      if (error > static_cast<std::uint32_t>(ErrorKind::not_permitted)) throw malformed("an error");
      message.error = static_cast<ErrorKind>(error);
      message.text = reader.text();
      break;
    }
    default: throw malformed("its kind");
  }
  reader.end();
  return message;
}

PlaceNames::PlaceNames(Driver& driver, const Topology& topology) : topology_(topology) {
  for (const DeviceId device : topology.devices()) {
    const DeviceInfo& info = topology.info(device);
    gpus_[driver.simulated() ? info.pci_bus_id : info.uuid] = gpu(index(device));
  }
}

SharedPlace PlaceNames::name(Place at) const {
  if (at.kind == Place::Kind::host) return {"", static_cast<std::uint32_t>(at.ordinal)};
  const auto named = std::ranges::find(gpus_, at, [](const auto& entry) { return entry.second; });
  return {named == gpus_.end() ? "unknown" : named->first, 0};
}

std::optional<Place> PlaceNames::find(const SharedPlace& place) const {
  if (place.gpu.empty()) {
    const Place node = host(static_cast<int>(std::min<std::uint32_t>(place.node, INT32_MAX)));
    return topology_.has(node) ? std::optional(node) : std::nullopt;
  }
  const auto named = gpus_.find(place.gpu);
  return named == gpus_.end() ? std::nullopt : std::optional(named->second);
}

std::vector<std::string> PlaceNames::gpus() const {
  std::vector<std::string> names;
  for (const DeviceId device : topology_.devices()) {
    names.push_back(name(gpu(index(device))).gpu);
  }
  return names;
}

std::vector<Place> PlaceNames::find_gpus(std::span<const std::string> names) const {
  std::vector<Place> found;
  for (const std::string& name : names) {
    if (const auto known = gpus_.find(name); known != gpus_.end()) found.push_back(known->second);
  }
  return found;
}

}  // namespace vma
