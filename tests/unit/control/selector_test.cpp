// Goal: a text is a selector only if it is well-formed, otherwise a tag; each selector selects what
// the documents say, in a fixed order, and what selects nothing says why and what there is. Method:
// texts, and a list of allocations that does not exist.
#include "control/selector.hpp"

#include "base/units.hpp"

#include <vma/error.hpp>

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace vma {
namespace {

using SelectorKind = Selector::Kind;

TEST(SelectorText, ReadsAddressesOfBothForms) {
  for (const auto& [text, address] : {std::pair<const char*, std::uint64_t>{"0", 0},
                                      {"4096", 4096},
                                      {"0x7f00", 0x7f00},
                                      {"0XAb", 0xab},
                                      {"0xffffffffffffffff", UINT64_MAX}}) {
    const Selector selector = parse_selector(text);
    EXPECT_EQ(selector.kind, SelectorKind::address) << text;
    EXPECT_EQ(selector.address, address) << text;
  }
}

TEST(SelectorText, ReadsCounts) {
  for (const auto& [text, kind] : {std::pair{"largest:3", SelectorKind::largest},
                                   {"oldest:3", SelectorKind::oldest},
                                   {"newest:3", SelectorKind::newest}}) {
    const Selector selector = parse_selector(text);
    EXPECT_EQ(selector.kind, kind) << text;
    EXPECT_EQ(selector.count, 3U) << text;
    EXPECT_EQ(selector.text, text);
    EXPECT_TRUE(selector.why_tag.empty());
  }
  EXPECT_EQ(parse_selector("largest:18446744073709551615").count, UINT64_MAX);
  EXPECT_EQ(parse_selector("all").kind, SelectorKind::all);
}

TEST(SelectorText, ReadsPlacesInEachSpelling) {
  for (const char* text : {"at:gpu1", "at:gpu(1)", "at:gpu:1"}) {
    EXPECT_EQ(parse_selector(text).kind, SelectorKind::at) << text;
    EXPECT_EQ(parse_selector(text).at, gpu(1)) << text;
  }
  EXPECT_EQ(parse_selector("at:host0").at, host(0));
}

TEST(SelectorText, ReadsRangesOfSizes) {
  struct {
    const char* text;
    std::uint64_t min, max;
  } const ranges[] = {
      {"size:4096..8192", 4096, 8192},      {"size:2MiB..1GiB", 2 * MiB, GiB},
      {"size:4K..4K", 4 * KiB, 4 * KiB},    {"size:..64KiB", 0, 64 * KiB},
      {"size:3GiB..", 3 * GiB, UINT64_MAX}, {"size:0B..1T", 0, 1024 * GiB},
  };
  for (const auto& range : ranges) {
    const Selector selector = parse_selector(range.text);
    EXPECT_EQ(selector.kind, SelectorKind::size) << range.text;
    EXPECT_EQ(selector.bytes_min, range.min) << range.text;
    EXPECT_EQ(selector.bytes_max, range.max) << range.text;
  }
}

TEST(SelectorText, EverythingElseIsATag) {
  for (const char* text : {"weights", "layer:3", "layer:3:largest", "All", "all ",
                           "all:", "largest", "largest3", "Largest:3", " largest:3", "vllm/weights",
                           "7b", "0x", "0xg", "-1", "larges:3", "18446744073709551616"}) {
    const Selector selector = parse_selector(text);
    EXPECT_EQ(selector.kind, SelectorKind::tag) << text;
    EXPECT_EQ(selector.tag, text);
    EXPECT_TRUE(selector.why_tag.empty()) << text;
  }
}

TEST(SelectorText, AMalformedValueMakesATagAndSaysWhy) {
  for (const auto& [text, why] : {
           std::pair{"largest:", "\"\" is not a whole number from 1 to 18446744073709551615"},
           {"largest:0", "\"0\" is not a whole number from 1 to 18446744073709551615"},
           {"oldest:two", "\"two\" is not a whole number from 1 to 18446744073709551615"},
           {"newest:-1", "\"-1\" is not a whole number from 1 to 18446744073709551615"},
           {"newest:0x2", "\"0x2\" is not a whole number from 1 to 18446744073709551615"},
           {"largest:3 ", "\"3 \" is not a whole number from 1 to 18446744073709551615"},
           {"largest:18446744073709551616",
            "\"18446744073709551616\" is not a whole number from 1 to 18446744073709551615"},
           {"at:", "\"\" is not a place; write gpu0 or host0"},
           {"at:mars", "\"mars\" is not a place; write gpu0 or host0"},
           {"at:gpu", "\"gpu\" is not a place; write gpu0 or host0"},
           {"size:", "\"\" is not a range; write MIN..MAX, MIN.. or ..MAX"},
           {"size:4MiB", "\"4MiB\" is not a range; write MIN..MAX, MIN.. or ..MAX"},
           {"size:..", "the range has neither MIN nor MAX"},
           {"size:1GB..", "\"1GB\" is not a size below 16 EiB; write 4096, 64MiB or 2GiB"},
           {"size:..x", "\"x\" is not a size below 16 EiB; write 4096, 64MiB or 2GiB"},
           {"size:1...2", "\".2\" is not a size below 16 EiB; write 4096, 64MiB or 2GiB"},
           {"size:..99999999999G",
            "\"99999999999G\" is not a size below 16 EiB; write 4096, 64MiB or 2GiB"},
           {"size:2K..1K", "the range ends at 1.0 KiB, before it begins at 2.0 KiB"},
           {"tag:", "the tag is empty"},
       }) {
    const Selector selector = parse_selector(text);
    EXPECT_EQ(selector.kind, SelectorKind::tag) << text;
    EXPECT_EQ(selector.tag, text);
    EXPECT_EQ(selector.why_tag, why) << text;
  }
}

TEST(SelectorText, APrefixNamesTagsThatLookLikeSomethingElse) {
  for (const char* tag : {"all", "largest:3", "42", "0x10", "tag:x", "layer:3"}) {
    const Selector selector = parse_selector(std::string("tag:") + tag);
    EXPECT_EQ(selector.kind, SelectorKind::tag);
    EXPECT_EQ(selector.tag, tag);
  }
}

TEST(SelectorText, TheGuideExplainsEachForm) {
  std::ifstream file(VMART_CONTROL_DOCUMENT);
  const std::string document((std::istreambuf_iterator<char>(file)), {});
  for (const SelectorForm& each : selector_forms()) {
    EXPECT_NE(document.find("`" + std::string(each.form) + "`"), std::string::npos) << each.form;
  }
}

/// Five allocations, by address. The second and the fourth are equally large; ages are in no order.
class Resolving : public testing::Test {
 protected:
  std::vector<std::size_t> select(std::initializer_list<const char*> texts) {
    std::vector<Selector> what;
    for (const char* text : texts) what.push_back(parse_selector(text));
    return resolve(what, listed_, has_chunk_at(), "test");
  }
  /// Of the error, without the call and the kind; the kind goes to `kind_`.
  std::string refusal(const char* text) {
    try {
      select({text});
    } catch (const Error& error) {
      kind_ = error.kind();
      const std::string whole = error.what();
      return whole.substr(whole.find(": ", whole.find(": ") + 2) + 2);
    }
    ADD_FAILURE() << text << " selects something";
    return {};
  }
  HasChunkAt has_chunk_at() const {
    return [](std::size_t which, Place at) { return at == (which < 2 ? gpu(0) : host(0)); };
  }

  using Indices = std::vector<std::size_t>;
  std::vector<Selectable> listed_{{0x1000, 4 * KiB, 5, "weights"},
                                  {0x3000, 8 * KiB, 2, ""},
                                  {0x6000, 12 * KiB, 9, "all"},
                                  {0x9000, 8 * KiB, 1, "layer:3"},
                                  {0xc000, 4 * KiB, 7, "weights"}};
  ErrorKind kind_{};
};

TEST_F(Resolving, FindsTheAllocationAroundAnAddress) {
  EXPECT_EQ(select({"0x3000"}), Indices{1});
  EXPECT_EQ(select({"0x4fff"}), Indices{1});
  EXPECT_EQ(select({"0xcfff"}), Indices{4});
  for (const char* outside : {"0", "0xfff", "0x2000", "0x5000", "0xd000", "0xffffffffffffffff"}) {
    EXPECT_NE(refusal(outside).find("is not in an allocation of this runtime; there are 5 "
                                    "allocations, the largest of 12.0 KiB"),
              std::string::npos);
    EXPECT_EQ(kind_, ErrorKind::unknown_pointer);
  }
}

TEST_F(Resolving, RanksBySizeAndThenByAddress) {
  EXPECT_EQ(select({"largest:1"}), Indices{2});
  EXPECT_EQ(select({"largest:2"}), (Indices{1, 2})) << "of two equal ones, the lower address";
  EXPECT_EQ(select({"largest:3"}), (Indices{1, 2, 3}));
  EXPECT_EQ(select({"largest:4"}), (Indices{0, 1, 2, 3}));
  EXPECT_EQ(select({"largest:99"}), (Indices{0, 1, 2, 3, 4})) << "as many as there are";
}

TEST_F(Resolving, RanksByAgeAndThenByAddress) {
  EXPECT_EQ(select({"oldest:1"}), Indices{3});
  EXPECT_EQ(select({"oldest:2"}), (Indices{1, 3}));
  EXPECT_EQ(select({"newest:1"}), Indices{2});
  EXPECT_EQ(select({"newest:2"}), (Indices{2, 4}));
  for (Selectable& each : listed_) each.sequence = 1;
  EXPECT_EQ(select({"oldest:2"}), (Indices{0, 1}));
  EXPECT_EQ(select({"newest:2"}), (Indices{0, 1}));
}

TEST_F(Resolving, ComparesSizesInclusively) {
  EXPECT_EQ(select({"size:8KiB..12KiB"}), (Indices{1, 2, 3}));
  EXPECT_EQ(select({"size:8193..12288"}), Indices{2});
  EXPECT_EQ(select({"size:..8191"}), (Indices{0, 4}));
  EXPECT_EQ(select({"size:12K.."}), Indices{2});
}

TEST_F(Resolving, SelectsByPlaceByTagAndAll) {
  EXPECT_EQ(select({"at:gpu0"}), (Indices{0, 1}));
  EXPECT_EQ(select({"at:host0"}), (Indices{2, 3, 4}));
  EXPECT_EQ(select({"all"}), (Indices{0, 1, 2, 3, 4}));
  EXPECT_EQ(select({"tag:all"}), Indices{2});
  EXPECT_EQ(select({"layer:3"}), Indices{3});
  EXPECT_EQ(select({"weights"}), (Indices{0, 4}));
}

TEST_F(Resolving, FindsTextInTheSite) {
  listed_[1].site = "libtorch.so at::empty < train.py:12 main";
  listed_[3].site = "train.py:120 main";
  EXPECT_EQ(select({"site:train.py:12 "}), Indices{1});
  EXPECT_EQ(select({"site:train.py:12"}), (Indices{1, 3}));
  EXPECT_EQ(refusal("site:model.py").find("\"site:model.py\" selects nothing"), 0u);
  EXPECT_EQ(parse_selector("site:").why_tag, "the text is empty");
}

TEST_F(Resolving, AnExistingTagMayLookLikeAMalformedSelector) {
  listed_[1].tag = "largest:x";
  EXPECT_EQ(select({"largest:x"}), Indices{1});
}

TEST_F(Resolving, UnitesSelectorsAndNamesEachAllocationOnce) {
  EXPECT_EQ(select({"newest:1", "0xc001", "weights", "largest:1"}), (Indices{0, 2, 4}));
}

TEST_F(Resolving, OneThatSelectsNothingRefusesAll) {
  EXPECT_THROW(select({"all", "at:gpu7"}), Error);
  EXPECT_THROW(select({"at:gpu7", "all"}), Error);
}

TEST_F(Resolving, SaysWhyNothingIsSelectedAndWhatThereIs) {
  const std::string exists = "; there are 5 allocations, the largest of 12.0 KiB";
  EXPECT_EQ(refusal("at:gpu7"), "\"at:gpu7\" selects nothing" + exists);
  EXPECT_EQ(kind_, ErrorKind::invalid_argument);
  EXPECT_EQ(refusal("size:1GiB.."), "\"size:1GiB..\" selects nothing" + exists);
  EXPECT_EQ(refusal("nobody's"), "no allocation has the tag \"nobody's\"" + exists);
  EXPECT_EQ(refusal("tag:nobody's"), "no allocation has the tag \"nobody's\"" + exists);
  EXPECT_EQ(refusal("larges:3"),
            "no allocation has the tag \"larges:3\"; did you mean largest:?" + exists);
  EXPECT_EQ(refusal("at:mars"),
            "no allocation has the tag \"at:mars\", which is no selector either: \"mars\" is not a "
            "place; write gpu0 or host0" +
                exists);
  EXPECT_EQ(kind_, ErrorKind::invalid_argument);
  listed_.resize(1);
  EXPECT_EQ(refusal("x"), "no allocation has the tag \"x\"; there is 1 allocation, of 4.0 KiB");
  listed_.clear();
  for (const char* text : {"all", "largest:1", "oldest:1", "newest:1", "at:gpu0", "size:0.."}) {
    EXPECT_EQ(refusal(text),
              "\"" + std::string(text) + "\" selects nothing; there are no allocations");
  }
  EXPECT_EQ(refusal("0x10"),
            "0x10 is not in an allocation of this runtime; there are no allocations");
}

}  // namespace
}  // namespace vma
