#include "lab/experiments/content_sum.hpp"

#include <vma/error.hpp>

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

namespace vma {

void ContentSum::add(std::string_view bytes) noexcept {
  for (const char byte : bytes) sum_ = (sum_ ^ static_cast<unsigned char>(byte)) * 1099511628211u;
}

std::string ContentSum::text() const {
  return fmt::format("{:016x}", sum_);
}

std::string sum_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> bytes(std::size_t{1} << 20);
  ContentSum sum;
  while (file) {
    file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    sum.add({bytes.data(), static_cast<std::size_t>(file.gcount())});
  }
  if (!file.eof()) {
    throw Error(ErrorKind::invalid_argument, "sum_of_file",
                fmt::format("{}: {}", path, std::strerror(errno)));
  }
  return sum.text();
}

std::string sum_of_machine(const ReplayMachine& machine) {
  ContentSum sum;
  const auto add = [&](auto... values) { (sum.add(fmt::format("{} ", values)), ...); };
  for (const PlaceState& place : machine.places) add(to_string(place.place), place.capacity_bytes);
  const MachineCosts& costs = machine.costs;
  for (std::size_t i = 0; i < costs.places() * costs.places(); ++i) {
    const auto from = static_cast<PlaceId>(i / costs.places());
    const auto to = static_cast<PlaceId>(i % costs.places());
    if (index(from) < costs.gpus())
      add(costs.access_rate(from, to), costs.access_latency(from, to).count());
    add(costs.copy_rate(from, to), costs.move_fixed(from, to).count(),
        costs.move_per_byte(from, to), costs.stall_fixed(from, to).count(),
        costs.stall_per_byte(from, to));
  }
  for (std::size_t link = 0; link < machine.links.size(); ++link) {
    const auto id = static_cast<LinkId>(link);
    add(machine.links.name(id), machine.links.capacity(id));
  }
  if (machine.suspension) add(machine.suspension->count());
  return sum.text();
}

}  // namespace vma
