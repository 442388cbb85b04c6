// The C calls for memory that stays in place.
#include "abi/run_table.hpp"
#include "abi/boundary.hpp"
#include "abi/migration_values.hpp"

#include "runtime/argument_checks.hpp"
#include "runtime/runtime_parts.hpp"

#include <vma/vma.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>

using vma::at_boundary;
using vma::require_argument;

struct vmart_pin {
  vma::Pin pin;
};

struct vmart_move_hook {
  vma::MoveHookRegistration registration;
};

namespace {

/// The two hooks of C++ as one callback of C.
vma::MoveHooks hooks_of(vmart_move_callback callback, void* user) {
  const auto call = [callback, user](const vma::MoveEvent& event, int32_t phase) {
    vmart_move_event told{};
    told.size_bytes = sizeof told;
    told.pointer = event.pointer;
    told.offset = event.offset;
    told.bytes = event.bytes;
    told.from = vma::to_c(event.from);
    told.to = vma::to_c(event.to);
    told.generation = event.generation;
    told.phase = phase;
    callback(&told, user);
    if (told.done == 0) throw std::runtime_error("its callback did not set `done`");
  };
  vma::MoveHooks hooks;
  hooks.before = [call](const vma::MoveEvent& event) { call(event, VMART_MOVE_BEGINS); };
  hooks.after = [call](const vma::MoveEvent& event) {
    call(event, event.dropped ? VMART_MOVE_DROPPED
                : event.moved ? VMART_MOVE_DONE
                              : VMART_MOVE_STAYED);
  };
  return hooks;
}

constexpr std::size_t alloc_options_bytes_min = 48;
static_assert(offsetof(vmart_alloc_options, cpu_access) + sizeof(int32_t) ==
              alloc_options_bytes_min);

vma::AllocOptions alloc_options_of(const vmart_alloc_options* given, const char* call) {
  vma::AllocOptions options;
  if (given == nullptr) return options;
  const auto known = vma::known_part(given, alloc_options_bytes_min, sizeof *given, call);
  vma::require_value(known.cpu_access, VMART_CPU_FAULT, call, "options->cpu_access");
  if (known.tag != nullptr) options.tag = known.tag;
  if (known.site != nullptr) options.site = known.site;
  options.chunk_bytes = known.chunk_bytes;
  options.zeroed = known.zeroed != 0;
  options.movable = known.unmovable == 0;
  options.shared_atomics = known.shared_atomics != 0;
  options.exportable = known.exportable != 0;
  options.pool = known.pool != 0;
  options.spill = known.spill != 0;
  if (known.cpu_access == VMART_CPU_FAULT) options.cpu_access = vma::CpuAccess::fault;
  return options;
}

}  // namespace

vmart_status vmart_alloc(size_t size_bytes, vmart_place at, void** out) {
  return at_boundary([&] {
    require_argument(out, "vmart_alloc", "out");
    *out = vma::alloc(size_bytes, vma::to_place(at, "vmart_alloc"));
  });
}

vmart_status vmart_alloc_tagged(size_t size_bytes, vmart_place at, const char* tag, void** out) {
  constexpr const char* call = "vmart_alloc_tagged";
  return at_boundary([&] {
    require_argument(tag, call, "tag");
    require_argument(out, call, "out");
    vma::AllocOptions options;
    options.tag = tag;
    *out = vma::alloc(size_bytes, vma::to_place(at, call), options);
  });
}

vmart_status vmart_alloc_with(size_t size_bytes, vmart_place at, const vmart_alloc_options* options,
                              void** out) {
  constexpr const char* call = "vmart_alloc_with";
  return at_boundary([&] {
    require_argument(out, call, "out");
    const vma::AllocOptions known = alloc_options_of(options, call);
    *out = vma::alloc(size_bytes, vma::to_place(at, call), known);
  });
}

vmart_status vmart_free(void* pointer) {
  return at_boundary([&] { vma::free(pointer); });
}

vmart_status vmart_free_async(void* pointer, vmart_stream stream) {
  return at_boundary([&] { vma::free_async(pointer, stream); });
}

vmart_status vmart_read(const void* pointer, void* out, size_t size_bytes) {
  return at_boundary([&] {
    require_argument(pointer, "vmart_read", "pointer");
    require_argument(out, "vmart_read", "out");
    vma::read(pointer, {static_cast<std::byte*>(out), size_bytes});
  });
}

vmart_status vmart_write(void* pointer, const void* bytes, size_t size_bytes) {
  return at_boundary([&] {
    require_argument(pointer, "vmart_write", "pointer");
    require_argument(bytes, "vmart_write", "bytes");
    vma::write(pointer, {static_cast<const std::byte*>(bytes), size_bytes});
  });
}

vmart_status vmart_where(const void* pointer, vmart_place* out) {
  constexpr const char* call = "vmart_where";
  return at_boundary([&] {
    require_argument(pointer, call, "pointer");
    require_argument(out, call, "out");
    const vma::RuntimeParts::Entry entry(parts_of(vma::runtime()), call);
    const auto allocation = entry->memory.require_around(pointer, call);
    const std::uint64_t offset = vma::address_of(pointer) - allocation->begin();
    const std::size_t slot = offset / allocation->geometry().chunk_bytes;
    vma::check_not_dropped(*allocation, {slot, slot + 1}, call);
    *out = vma::to_c(allocation->place(slot));
  });
}

vmart_status vmart_base(const void* pointer, void** out_base, size_t* out_size_bytes) {
  constexpr const char* call = "vmart_base";
  return at_boundary([&] {
    require_argument(pointer, call, "pointer");
    const vma::RuntimeParts::Entry entry(parts_of(vma::runtime()), call);
    const auto allocation = entry->memory.require_around(pointer, call);
    if (out_base != nullptr) *out_base = vma::to_pointer(allocation->begin());
    if (out_size_bytes != nullptr) *out_size_bytes = allocation->size_bytes();
  });
}

namespace {

/// What the ledger has booked at a place.
vma::Ledger::Account account_at(vmart_place at, const char* call) {
  const vma::RuntimeParts::Entry entry(parts_of(vma::runtime()), call);
  const vma::Place place = vma::to_place(at, call);
  entry->memory.topology().require(place, call);
  return entry->memory.chunks().ledger().account(place);
}

}  // namespace

vmart_status vmart_capacity(vmart_place at, uint64_t* out) {
  constexpr const char* call = "vmart_capacity";
  return at_boundary([&] {
    require_argument(out, call, "out");
    *out = account_at(at, call).capacity_bytes;
  });
}

vmart_status vmart_held_bytes(vmart_place at, uint64_t* out) {
  constexpr const char* call = "vmart_held_bytes";
  return at_boundary([&] {
    require_argument(out, call, "out");
    const vma::Ledger::Account account = account_at(at, call);
    *out = account.allocated_bytes + account.spare_bytes() + account.own_bytes;
  });
}

vmart_status vmart_cached_bytes(vmart_place at, uint64_t* out) {
  constexpr const char* call = "vmart_cached_bytes";
  return at_boundary([&] {
    require_argument(out, call, "out");
    *out = account_at(at, call).cached_bytes;
  });
}

vmart_status vmart_trim(vmart_place at, uint64_t* out_bytes) {
  return at_boundary([&] {
    const std::size_t bytes = vma::trim(vma::to_place(at, "vmart_trim"));
    if (out_bytes != nullptr) *out_bytes = bytes;
  });
}

vmart_status vmart_make_room(vmart_place at, uint64_t bytes, uint64_t* out_bytes) {
  constexpr const char* call = "vmart_make_room";
  return at_boundary([&] {
    const std::size_t moved = vma::runtime().make_room(vma::to_place(at, call), bytes);
    if (out_bytes != nullptr) *out_bytes = moved;
  });
}

vmart_status vmart_pin_create(void* pointer, vmart_pin** out) {
  return at_boundary([&] {
    require_argument(pointer, "vmart_pin_create", "pointer");
    require_argument(out, "vmart_pin_create", "out");
    *out = std::make_unique<vmart_pin>(vma::pin(pointer)).release();
  });
}

void vmart_pin_release(vmart_pin* pin) {
  at_boundary([&] { delete pin; });
}

vmart_status vmart_note_export(void* pointer) {
  return at_boundary([&] {
    require_argument(pointer, "vmart_note_export", "pointer");
    vma::note_export(pointer);
  });
}

vmart_status vmart_move_hook_create(void* pointer, vmart_move_callback callback, void* user,
                                    vmart_move_hook** out) {
  constexpr const char* call = "vmart_move_hook_create";
  return at_boundary([&] {
    require_argument(pointer, call, "pointer");
    require_argument(reinterpret_cast<const void*>(callback), call, "callback");
    require_argument(out, call, "out");
    *out = std::make_unique<vmart_move_hook>(vma::on_move(pointer, hooks_of(callback, user)))
               .release();
  });
}

void vmart_move_hook_release(vmart_move_hook* hook) {
  at_boundary([&] { delete hook; });
}
