"""vLLM's sleep mode on memory of vmart: sleep and wake-up do all or nothing.

    VMART_VLLM=1 vllm serve MODEL --enable-sleep-mode --sleep-mode-backend vmart

Without VMART_VLLM=1 nothing of vLLM changes. Written for vLLM 0.33.0; docs/tutorial/vllm.md.
"""

from vmart.vllm.registration import register

__all__ = ["register"]
