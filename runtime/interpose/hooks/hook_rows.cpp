// Which function of this library takes the place of which one of the driver.
#include "interpose/driver_library.hpp"
#include "interpose/hooks/hook.hpp"

namespace vma::interpose {

const std::array<HookRow, static_cast<std::size_t>(EntryPoint::count)> hook_rows = {{
#define ROW(symbol, type) HookRow{#symbol, reinterpret_cast<const void*>(&hook_##symbol)},
    VMART_RUN_HOOKS(ROW)
#undef ROW
#define ROW(symbol, type) \
  HookRow{#symbol, reinterpret_cast<const void*>(&EnqueueHook<EntryPoint::symbol>::call)},
        VMART_RUN_ENQUEUES(ROW)
#undef ROW
#define ROW(symbol, type) \
  HookRow{#symbol, reinterpret_cast<const void*>(&LookupHook<EntryPoint::symbol>::call)},
            VMART_RUN_LOOKUPS(ROW) VMART_RUN_ROOM_CALLS(ROW)
#undef ROW
}};

}  // namespace vma::interpose
