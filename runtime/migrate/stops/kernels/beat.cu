// A kernel with one thread that shows whether it runs: it counts until it is told to end, or has
// run for so long. It counts once before it looks, so that it also serves as short work.

using Word = unsigned long long;

extern "C" __global__ void vmart_beat_until(volatile Word* beats, const volatile Word* end,
                                            Word limit_ns) {
  Word start, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
  Word beat = *beats;
  do {
    *beats = ++beat;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (*end == 0 && now - start < limit_ns);
}
