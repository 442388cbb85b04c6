// Goal: messages arrive as they were sent, and whatever else arrives is refused with a typed error.
// Method: each kind of message, whole, cut at every byte, and changed at every byte.

#include "sharing/exporter_move_state.hpp"
#include "sharing/share_protocol.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace vma {
namespace {

std::vector<ShareMessage> messages() {
  std::vector<ShareMessage> all;
  all.push_back({.kind = ShareKind::hello});
  all.push_back({.kind = ShareKind::hello, .gpus = {"GPU-1", "GPU-2"}});
  all.push_back({.kind = ShareKind::ready});
  all.push_back({.kind = ShareKind::done});
  all.push_back({.kind = ShareKind::ask, .first = 77});
  all.push_back({.kind = ShareKind::offer, .geometry = {8192, 4096, 3}, .tag = "weights"});
  all.push_back(
      {.kind = ShareKind::chunks, .first = 2, .chunks = {{{"GPU-1", 0}, 8192}, {{"", 1}, 4096}}});
  all.push_back({.kind = ShareKind::stop});
  all.push_back({.kind = ShareKind::stopped});
  all.push_back({.kind = ShareKind::ended, .stall = std::chrono::microseconds(17)});
  all.push_back({.kind = ShareKind::move,
                 .first = 5,
                 .limit = std::chrono::seconds(2),
                 .decision_limit = std::chrono::seconds(7)});
  all.push_back({.kind = ShareKind::refusal, .error = ErrorKind::dropped, .text = "parked"});
  return all;
}

/// The kind of the error, none if it was decoded.
std::optional<ErrorKind> refusal_of(std::span<const std::byte> bytes) {
  try {
    decode(bytes);
    return std::nullopt;
  } catch (const Error& error) {
    return error.kind();
  }
}

TEST(ShareProtocol, EveryMessageArrivesAsItWasSent) {
  for (const ShareMessage& sent : messages()) {
    const ShareMessage read = decode(encode(sent));
    EXPECT_EQ(read.kind, sent.kind);
    EXPECT_EQ(read.gpus, sent.gpus);
    EXPECT_EQ(read.geometry, sent.geometry);
    EXPECT_EQ(read.tag, sent.tag);
    EXPECT_EQ(read.first, sent.first);
    EXPECT_EQ(read.text, sent.text);
    EXPECT_EQ(read.error, sent.error);
    ASSERT_EQ(read.chunks.size(), sent.chunks.size());
    for (std::size_t i = 0; i < read.chunks.size(); ++i) {
      EXPECT_EQ(read.chunks[i].at, sent.chunks[i].at);
      EXPECT_EQ(read.chunks[i].size_bytes, sent.chunks[i].size_bytes);
    }
  }
}

TEST(ShareProtocol, ACutOrLongerMessageIsRefused) {
  for (const ShareMessage& sent : messages()) {
    std::vector<std::byte> bytes = encode(sent);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_EQ(refusal_of(std::span(bytes).first(size)), ErrorKind::peer_failure) << size;
    }
    bytes.push_back(std::byte{0});
    EXPECT_EQ(refusal_of(bytes), ErrorKind::peer_failure);
  }
}

TEST(ShareProtocol, AChangedMessageIsRefusedOrReadWithinTheLimits) {
  for (const ShareMessage& sent : messages()) {
    const std::vector<std::byte> bytes = encode(sent);
    for (std::size_t at = 0; at < bytes.size(); ++at) {
      for (const int change : {1, 0x80, 0xff}) {
        std::vector<std::byte> changed = bytes;
        changed[at] ^= static_cast<std::byte>(change);
        const std::optional<ErrorKind> refused = refusal_of(changed);
        if (at < 8) {
          EXPECT_EQ(refused, at < 4 ? ErrorKind::peer_failure : ErrorKind::unsupported);
        } else if (!refused) {
          EXPECT_LE(decode(changed).chunks.size(), chunks_in_message_max);
        }
      }
    }
  }
}

TEST(ShareProtocol, TheLargestMessageFitsTheLimit) {
  ShareMessage message{.kind = ShareKind::chunks};
  // A UUID has 40 characters.
  for (std::size_t i = 0; i < chunks_in_message_max; ++i) {
    message.chunks.push_back({{std::string(64, 'g'), 0}, UINT64_MAX});
  }
  EXPECT_LE(encode(message).size(), share_message_bytes_max);
  ShareMessage hello{.kind = ShareKind::hello};
  hello.gpus.assign(gpus_in_hello_max, std::string(64, 'g'));
  EXPECT_LE(encode(hello).size(), share_message_bytes_max);
  EXPECT_EQ(decode(encode(hello)).gpus, hello.gpus);
  hello.gpus.emplace_back("one more");
  EXPECT_EQ(refusal_of(encode(hello)), ErrorKind::peer_failure);
  ShareMessage refusal{.kind = ShareKind::refusal, .text = std::string(100'000, 't')};
  EXPECT_LE(encode(refusal).size(), share_message_bytes_max);
  EXPECT_EQ(decode(encode(refusal)).text.size(), shared_text_bytes_max);
}

TEST(ExporterMoveState, PassesOnNoChunkOnceItIsWithdrawn) {
  ExporterMoveState move({}, {std::chrono::seconds(1), std::chrono::seconds(1)});
  int asked = 0;
  const auto ask = [&](std::span<const ExporterChunk>) { return ++asked > 1; };
  EXPECT_FALSE(move.with_chunks(ask));
  move.withdraw();
  EXPECT_TRUE(move.with_chunks(ask));
  EXPECT_EQ(asked, 1) << "their handles may be closed";
}

}  // namespace
}  // namespace vma
