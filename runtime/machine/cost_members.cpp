#include "machine/cost_members.hpp"

#include "base/check.hpp"

#include <array>

namespace vma {
namespace {

using Costs = CostParameters;

constexpr std::array tables = {
    CostMember<CostTable>{"create", &Costs::create},
    CostMember<CostTable>{"release", &Costs::release},
    CostMember<CostTable>{"unmap", &Costs::unmap},
    CostMember<CostTable>{"grant_cold", &Costs::grant_cold},
    CostMember<CostTable>{"grant_first", &Costs::grant_first},
    CostMember<CostTable>{"grant_later", &Costs::grant_later},
    CostMember<CostTable>{"grant_shadow", &Costs::grant_shadow},
    CostMember<CostTable>{"grant_first_own_class", &Costs::grant_first_own_class},
    CostMember<CostTable>{"grant_later_own_class", &Costs::grant_later_own_class},
};

constexpr std::array numbers = {
    CostMember<double>{"host_grant_us_per_mib", &Costs::host_grant_us_per_mib},
    CostMember<double>{"host_unmap_us_per_mib", &Costs::host_unmap_us_per_mib},
    CostMember<double>{"host_create_gb_s", &Costs::host_create_gb_s},
    CostMember<double>{"plain_allocate_us", &Costs::plain_allocate_us},
    CostMember<double>{"plain_free_us", &Costs::plain_free_us},
    CostMember<double>{"reserve_us", &Costs::reserve_us},
    CostMember<double>{"unreserve_us", &Costs::unreserve_us},
    CostMember<double>{"map_us", &Costs::map_us},
    CostMember<double>{"launch_us", &Costs::launch_us},
    CostMember<double>{"record_us", &Costs::record_us},
    CostMember<double>{"batch_us", &Costs::batch_us},
    CostMember<double>{"wait_us", &Costs::wait_us},
    CostMember<double>{"query_us", &Costs::query_us},
    CostMember<double>{"enqueue_us", &Costs::enqueue_us},
    CostMember<double>{"hold_us", &Costs::hold_us},
    CostMember<double>{"create_event_us", &Costs::create_event_us},
    CostMember<double>{"create_stream_us", &Costs::create_stream_us},
    CostMember<double>{"open_context_us", &Costs::open_context_us},
    CostMember<double>{"green_context_us", &Costs::green_context_us},
    CostMember<double>{"suspend_us", &Costs::suspend_us},
    CostMember<double>{"suspend_channel_us", &Costs::suspend_channel_us},
    CostMember<double>{"resume_us", &Costs::resume_us},
    CostMember<double>{"resume_channel_us", &Costs::resume_channel_us},
    CostMember<double>{"load_kernel_us", &Costs::load_kernel_us},
    CostMember<double>{"kernel_us", &Costs::kernel_us},
    CostMember<double>{"copy_latency_us", &Costs::copy_latency_us},
    CostMember<double>{"host_copy_gb_s", &Costs::host_copy_gb_s},
};

constexpr std::array sizes = {
    CostMember<std::uint64_t>{"size_class_mib", &Costs::size_class_bytes},
    CostMember<std::uint64_t>{"context_mib", &Costs::context_bytes},
    CostMember<std::uint64_t>{"green_context_mib", &Costs::green_context_bytes},
    CostMember<std::uint64_t>{"own_context_mib", &Costs::own_context_bytes},
};

template <typename Members>
bool copied(const Members& members, std::string_view key, const Costs& from, Costs& to) {
  for (const auto& it : members) {
    if (it.key != key) continue;
    to.*it.member = from.*it.member;
    return true;
  }
  return false;
}

}  // namespace

std::span<const CostMember<CostTable>> cost_tables() {
  return tables;
}

std::span<const CostMember<double>> cost_numbers() {
  return numbers;
}

std::span<const CostMember<std::uint64_t>> cost_sizes() {
  return sizes;
}

void copy_cost(std::string_view key, const CostParameters& from, CostParameters& to) {
  const bool there = copied(tables, key, from, to) || copied(numbers, key, from, to) ||
                     copied(sizes, key, from, to);
  VMART_CHECK(there, "it is the key of a cost");
}

}  // namespace vma
