"""How a router shares the accesses out among devices. If most of them are on one, results say little of
placement among several."""

EQUAL_SHARE_MAX = 1.5  # As in `crowded_device` of runtime/lab/replay/replay_metrics.hpp.


def crowd_limit(devices_count):
    """Above 1 for one device: it has all accesses wherever they are routed."""
    return max(0.5, EQUAL_SHARE_MAX / devices_count)


def crowded(devices):
    """Rows of `Results.devices` with most of the accesses of their cell."""
    if len(devices) == 0:
        return devices
    counts = devices.groupby("id")["device"].transform("count")
    return devices[devices["accesses_share"] > counts.map(crowd_limit)]


def crowd_warnings(results):
    """A sentence for each machine, trace and router with such cells, the largest share first."""
    names = results.cells[["id", "machine", "trace", "router"]] if len(results.cells) else results.cells
    found = crowded(results.devices)
    if len(found) == 0:
        return []
    rows = found.merge(names, on="id").sort_values("accesses_share", ascending=False, kind="stable")
    groups = rows.groupby(["machine", "trace", "router"], sort=False)
    return [f"{trace} on {machine}: with router {router}, {100 * group['accesses_share'].iloc[0]:.1f} % of the "
            f"accesses are on {group['device'].iloc[0]} (cells: {len(group)})"
            for (machine, trace, router), group in groups]


def share_note(results, standings):
    """The shares of each device, of the cell of the fastest policy with the first seed."""
    first = standings.cells.drop_duplicates("policy").set_index("policy")["id"]
    devices = results.devices[results.devices["id"] == first[standings.rows["policy"].iloc[0]]]
    if len(devices) == 0 or devices["accesses_share"].isna().all():
        return ""
    shares = ", ".join(f"{row['device']} {100 * row['accesses_share']:.1f}\u202f% "
                       f"({100 * row['bytes_share']:.1f}\u202f%)" for _, row in devices.iterrows())
    return f"Share of the accesses (of their bytes): {shares}."
