// Goal: the cells of a chunk are adjacent and in the order of first use, however many there are,
// and cells that a chunk no longer needs are reused.

#include "placement/books/heat_cells.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>

namespace vma {
namespace {

constexpr PlaceId user(std::uint32_t number) {
  return PlaceId{static_cast<std::uint8_t>(number)};
}

TEST(HeatCells, UsersStayInTheOrderOfTheirFirstUseAsARunGrows) {
  HeatCells cells(1000);
  ChunkRow one, other;
  for (std::uint32_t i = 0; i < 20; ++i) {
    cells.find_or_make(one, user(40 - i), Time(i))->read_short = static_cast<float>(i);
    cells.find_or_make(other, user(i), Time(i))->read_short = -1;
  }
  cells.find_or_make(one, user(35), Time(99))->read_long = 7;  // A known user: creates no cell.
  ASSERT_EQ(cells.of(one).size(), 20u);
  for (std::uint32_t i = 0; i < 20; ++i) {
    const HeatCell& cell = cells.of(one)[i];
    EXPECT_EQ(cell.device, user(40 - i));
    EXPECT_EQ(cell.read_short, static_cast<float>(i));
    EXPECT_EQ(cell.updated, Time(i)) << "when it was made";
    EXPECT_EQ(&cell, &cells.at(one.heat + i));
  }
  EXPECT_EQ(cells.of(one)[5].read_long, 7);
}

TEST(HeatCells, WhatIsDroppedOrOutgrownIsUsedAgain) {
  HeatCells cells(1000);
  ChunkRow first;
  for (std::uint32_t i = 0; i < 8; ++i) cells.find_or_make(first, user(i), Time(0));
  const std::size_t bytes = cells.bytes();
  for (int round = 0; round < 100; ++round) {
    cells.drop(first);
    EXPECT_EQ(first.users, 0);
    EXPECT_TRUE(cells.of(first).empty());
    for (std::uint32_t i = 0; i < 8; ++i) {
      const HeatCell* const cell = cells.find_or_make(first, user(i), Time(round));
      EXPECT_EQ(cell->read_short, 0);
      cells.find_or_make(first, user(i), Time(round))->read_short = 1;
    }
  }
  EXPECT_EQ(cells.bytes(), bytes);
}

TEST(HeatCells, NoMoreAreInUseThanMayBe) {
  HeatCells cells(5);
  ChunkRow row, late;
  for (std::uint32_t i = 0; i < 5; ++i)
    EXPECT_NE(cells.find_or_make(row, user(i), Time(0)), nullptr);
  EXPECT_EQ(cells.find_or_make(row, user(5), Time(0)), nullptr);
  EXPECT_EQ(cells.find_or_make(late, user(0), Time(0)), nullptr);
  EXPECT_EQ(late.users, 0);
  EXPECT_NE(cells.find_or_make(row, user(4), Time(0)), nullptr) << "it has its own";
  cells.drop(row);
  EXPECT_NE(cells.find_or_make(late, user(0), Time(0)), nullptr);
}

}  // namespace
}  // namespace vma
