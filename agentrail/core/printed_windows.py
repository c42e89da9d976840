"""Context windows of models, in tokens. Printed by `tests.adapters.printed_windows`; not edited.

Source: the package `genai-prices` 0.2.3. A name counts for all models whose names begin with it.
Of several, the longest counts. One that no model to converse with is called ends with a star.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PRINTED: Final[Mapping[str, Mapping[int, str]]] = {
    "anthropic": {
        200_000: (
            "claude-2 claude-3-5-haiku* claude-3-5-haiku-latest claude-3-5-sonnet claude-3-7-sonnet* "
            "claude-3-7-sonnet-latest claude-3-haiku claude-3-opus* claude-3-opus-latest claude-3-sonnet "
            "claude-3.5-haiku* claude-3.5-sonnet* claude-3.7-sonnet* claude-4-5-haiku* claude-4-5-opus* "
            "claude-4-opus* claude-4-sonnet* claude-4.5-haiku* claude-4.5-opus* claude-haiku-4-5 "
            "claude-haiku-4.5* claude-opus-4 claude-sonnet-3-7* claude-sonnet-3.7* claude-sonnet-4 "
        ),
        1_000_000: (
            "claude-4-6-opus* claude-4-7-opus* claude-4-8-opus* claude-4.6-opus* claude-4.7-opus* "
            "claude-4.8-opus* claude-5-5-haiku* claude-5-5-opus* claude-5-5-sonnet* claude-5-opus* "
            "claude-5-sonnet* claude-5.0-opus* claude-5.0-sonnet* claude-5.5-haiku* claude-5.5-opus* "
            "claude-5.5-sonnet* claude-fable-5 claude-haiku-5-5 claude-haiku-5.5* claude-mythos-5-2 "
            "claude-opus-4-6 claude-opus-4-7 claude-opus-4-8 claude-opus-4.6* claude-opus-4.7* claude-opus-4.8* "
            "claude-opus-5 claude-sonnet-4-6 claude-sonnet-4.6* claude-sonnet-5 "
        ),
    },
    "bedrock": {
        8_192: (
            "amazon.titan-embed-text-v1* amazon.titan-embed-text-v2:0* meta.llama3-70b-instruct-v1:0 "
            "meta.llama3-8b-instruct-v1:0 "
        ),
        32_000: (
            "mistral.mistral-7b-instruct-v0:2 mistral.mistral-large-2402-v1:0 mistral.mistral-small-2402-v1:0 "
            "mistral.mixtral-8x7b-instruct-v0:1 mistral.voxtral-mini-3b-2507* mistral.voxtral-small-24b-2507 "
            "qwen.qwen3-32b-v1:0 "
        ),
        128_000: (
            "amazon.nova-micro-v1:0 deepseek.r1-v1:0 google.gemma-3-12b-it google.gemma-3-27b-it "
            "google.gemma-3-4b-it meta.llama3-1-70b-instruct-v1:0 meta.llama3-1-8b-instruct-v1:0 "
            "meta.llama3-2-11b-instruct-v1:0 meta.llama3-2-1b-instruct-v1:0 meta.llama3-2-3b-instruct-v1:0 "
            "meta.llama3-2-90b-instruct-v1:0 meta.llama3-3-70b-instruct-v1:0 mistral.magistral-small-2509 "
            "mistral.ministral-3-14b-instruct mistral.ministral-3-3b-instruct mistral.ministral-3-8b-instruct "
            "mistral.pixtral-large-2502-v1:0 nvidia.nemotron-nano-9b-v2:0 openai.gpt-oss-120b-1:0 "
            "openai.gpt-oss-20b-1:0 qwen.qwen3-coder-480b-a35b-v1:0 writer.palmyra-x4-v1:0 writer.palmyra-x5-v1:0 "
        ),
        200_000: (
            "anthropic.claude-3-5-haiku-20241022-v1:0 anthropic.claude-3-5-sonnet-20240620-v1:0 "
            "anthropic.claude-3-5-sonnet-20241022-v2:0 anthropic.claude-3-7-sonnet-20250219-v1:0 "
            "anthropic.claude-3-haiku-20240307-v1:0 anthropic.claude-3-opus-20240229-v1:0 "
            "anthropic.claude-3-sonnet-20240229-v1:0 anthropic.claude-haiku-4-5-20251001* "
            "anthropic.claude-haiku-4-5-20251001-v1:0 anthropic.claude-opus-4-1-20250805* "
            "anthropic.claude-opus-4-20250514* anthropic.claude-opus-4-5* anthropic.claude-opus-4-5-v1:0 "
            "anthropic.claude-sonnet-4-20250514* anthropic.claude-sonnet-4-20250514-v1:0 "
            "anthropic.claude-sonnet-4-5-20250929* anthropic.claude-sonnet-4-5-20250929-v1:0 "
        ),
        256_000: (
            "mistral.devstral-2-123b mistral.mistral-large-3-675b-instruct nvidia.nemotron-nano-3-30b:0 "
            "nvidia.nemotron-super-3-120b:0 qwen.qwen3-coder-30b-a3b-v1:0 qwen.qwen3-vl-235b-a22b-v1:0 "
        ),
        300_000: "amazon.nova-lite-v1:0 amazon.nova-pro-v1:0",
        1_000_000: (
            "amazon.nova-2-lite-v1:0 amazon.nova-2-sonic-v1:0* amazon.nova-premier-v1:0 anthropic.claude-fable-5 "
            "anthropic.claude-haiku-5-5 anthropic.claude-mythos-5-2 anthropic.claude-opus-4-6* "
            "anthropic.claude-opus-4-6-v1:0 anthropic.claude-opus-4-7* anthropic.claude-opus-4-7-v1:0 "
            "anthropic.claude-opus-4-8* anthropic.claude-opus-4-8-v1:0 anthropic.claude-opus-5 "
            "anthropic.claude-sonnet-4-6* anthropic.claude-sonnet-4-6-v1:0 anthropic.claude-sonnet-5 "
            "meta.llama4-maverick-17b-instruct-v1:0 moonshotai.kimi-k3 openai.gpt-5.6-luna openai.gpt-5.6-sol "
            "openai.gpt-5.6-terra openai.gpt-6-luna openai.gpt-6-sol openai.gpt-6.1-sol zai.glm-5.3 "
        ),
        1_050_000: "openai.gpt-6-astra openai.gpt-6.1-terra",
        10_000_000: "meta.llama4-scout-17b-instruct-v1:0",
    },
    "deepseek": {
        64_000: "deepseek-chat deepseek-r1* deepseek-r1-0528 deepseek-reasoner",
        128_000: "deepseek-v3.1-terminus deepseek-v3.2",
        1_000_000: "deepseek-flash deepseek-v4-flash deepseek-v4-pro",
    },
    "fireworks": {
        128_000: (
            "accounts/fireworks/models/qwen2p5-vl-72b-instruct accounts/fireworks/models/qwen3-235b-a22b "
            "qwen2p5-vl-72b-instruct* qwen3-235b-a22b* "
        ),
        131_000: (
            "accounts/fireworks/models/gemma-3-27b-it accounts/fireworks/models/llama-v3p1-8b-instruct "
            "gemma-3-27b-it* llama-v3p1-8b-instruct* "
        ),
        131_072: (
            "accounts/fireworks/models/gpt-oss-120b accounts/fireworks/models/gpt-oss-20b gpt-oss-120b* gpt-oss-20b* "
        ),
        160_000: (
            "accounts/fireworks/models/deepseek-r1-0528 accounts/fireworks/models/deepseek-v3-0324 "
            "deepseek-r1-0528* deepseek-v3-0324* "
        ),
        163_840: "accounts/fireworks/models/deepseek-v3p2 deepseek-v3p2*",
        202_752: "accounts/fireworks/models/glm-4p7 glm-4p7*",
        204_800: "accounts/fireworks/models/minimax-m2p1 minimax-m2p1*",
        262_000: "accounts/fireworks/models/nemotron-3-ultra-nvfp4 nemotron-3-ultra-nvfp4*",
        262_144: (
            "accounts/fireworks/models/kimi-k2p5 accounts/fireworks/models/kimi-k2p7-code "
            "accounts/fireworks/models/qwen3p7-plus accounts/fireworks/routers/kimi-k2p6-fast "
            "accounts/fireworks/routers/kimi-k2p7-code-fast kimi-k2p5* kimi-k2p6-fast* kimi-k2p7-code* "
            "qwen3p7-plus* "
        ),
        524_288: "accounts/fireworks/models/minimax-m3 minimax-m3*",
        1_000_000: "accounts/fireworks/models/llama4-maverick-instruct-basic llama4-maverick-instruct-basic*",
        1_040_000: (
            "accounts/fireworks/models/deepseek-v4-flash accounts/fireworks/models/glm-5p2 "
            "accounts/fireworks/models/inkling accounts/fireworks/models/kimi-k3 "
            "accounts/fireworks/routers/glm-5p2-fast accounts/fireworks/routers/kimi-k3-fast "
            "accounts/fireworks/routers/kimi-k3-us deepseek-v4-flash* glm-5p2* inkling* kimi-k3* "
        ),
        1_048_576: "accounts/fireworks/models/deepseek-v4-pro deepseek-v4-pro*",
    },
    "gemini": {
        8_192: (
            "gemini-2.5-flash-lite-preview-tts* gemini-2.5-flash-preview-tts* gemini-2.5-flash-tts* "
            "gemini-2.5-pro-preview-tts* gemini-2.5-pro-tts* gemini-embedding-2* "
        ),
        32_768: "gemini-1.0-pro gemini-pro",
        131_072: "gemini-3.8-live*",
        262_144: "gemma-4-26b-a4b-it gemma-4-31b-it",
        1_000_000: (
            "gemini-1.5-flash gemini-1.5-pro gemini-2.0-flash gemini-2.5-flash-image gemini-2.5-flash-lite "
            "gemini-3-flash-preview gemini-3-pro-image gemini-3.1-flash-image gemini-3.1-flash-lite "
            "gemini-3.5-flash gemini-3.6-flash gemini-3.7-flash gemini-3.8-flash gemini-flash-1.5-8b "
            "gemini-flash-latest gemini-flash-lite-latest "
        ),
        1_048_576: "gemini-2.5-flash gemini-4-argon",
        2_000_000: "gemini-pro-1.5",
    },
    "groq": {
        512: "meta-llama/llama-prompt-guard-2-22m* meta-llama/llama-prompt-guard-2-86m*",
        4_000: "canopylabs/orpheus-arabic-saudi* canopylabs/orpheus-v1-english*",
        131_072: (
            "deepseek-r1-distill-llama-70b meta-llama/llama-4-maverick-17b-128e-instruct "
            "meta-llama/llama-guard-4-12b moonshotai/kimi-k2-instruct openai/gpt-oss-120b openai/gpt-oss-20b "
            "openai/gpt-oss-safeguard-20b qwen/qwen3-32b qwen/qwen3.8-27b "
        ),
    },
    "mistral": {
        8_000: "codestral-embed*",
        8_192: "mistral-embed*",
        16_384: "mistral-ocr-2512* mistral-ocr-4* voxtral-mini-2602* voxtral-mini-latest*",
        32_768: "voxtral-small-24b-2507 voxtral-small-2507 voxtral-small-latest",
        131_072: "ministral-3b-2512",
        256_000: "codestral* codestral-2501 codestral-2508 codestral-latest",
        262_144: (
            "devstral-2512 ministral-14b-2512 ministral-8b-2512 mistral-large-2512 mistral-medium-2604 "
            "mistral-medium-3 mistral-small-2603 "
        ),
        1_048_576: "mistral-large-4",
    },
    "openai": {
        8_192: "computer-use ft:gpt-4-0* gpt-4 text-embedding-3-large* text-embedding-3-small* text-embedding-ada*",
        16_000: "gpt-4o-mini-realtime* gpt-4o-mini-transcribe* gpt-4o-transcribe*",
        16_385: "gpt-3.5-turbo gpt-35-turbo",
        32_000: "gpt-4-32k gpt-4o-realtime* gpt-realtime* gpt-realtime-2025-08-28*",
        128_000: (
            "chatgpt-4o-latest gpt-4-0125-preview gpt-4-1106-preview gpt-4-1106-vision-preview gpt-4-turbo "
            "gpt-4-vision-preview gpt-4o gpt-5-3* gpt-5.3 gpt-audio* gpt-realtime-2* o1-mini o1-preview "
        ),
        131_072: "gpt-oss-120b gpt-oss-20b gpt-oss-safeguard-20b",
        200_000: "codex-mini o1 o3 o4-mini",
        400_000: "gpt-5 gpt-5-3-codex* gpt-5-4-mini* gpt-5-4-nano* gpt-5.3-codex gpt-5.4-mini gpt-5.4-nano",
        1_000_000: "gpt-4.1 gpt-5-5* gpt-5.5",
        1_050_000: "gpt-5-4* gpt-5-6* gpt-5.4 gpt-5.6 gpt-6-astra gpt-6-luna gpt-6-sol gpt-6.1-sol gpt-6.1-terra",
    },
    "openrouter": {
        4_095: "openai/gpt-3.5-turbo-0613 openai/gpt-3.5-turbo-instruct",
        6_144: "undi95/remm-slerp-l2-13b",
        8_000: "mancer/weaver",
        8_191: "gpt-4-0314 openai/gpt-4",
        8_192: (
            "deepseek/deepseek-r1-distill-llama-70b google/gemma-2-27b-it sao10k/l3-lunaris-8b "
            "tencent/hy-mt2-1.8b tencent/hy-mt2-30b-a3b tencent/hy-mt2-7b "
        ),
        16_384: "microsoft/phi-4 rekaai/reka-edge",
        16_385: "gpt-3.5-turbo-0125 openai/gpt-3.5-turbo",
        32_000: (
            "mistralai/voxtral-small-24b-2507 moondream/moondream3-preview moondream/moondream3.1-9b-a2b "
            "typesafe/jev-1.13 typesafe/jev-1.14 ~typesafe/jev-latest "
        ),
        32_768: (
            "aion-labs/aion-rp-llama-3.1-8b anthracite-org/magnum-v4-72b google/gemini-2.5-flash-image "
            "mistralai/mistral-saba mistralai/mistral-small-24b-instruct-2501 perceptron/perceptron-mk1 "
            "qwen/qwen-2.5-7b-instruct qwen/qwen-2.5-coder-32b-instruct thedrummer/skyfall-36b-v2 "
        ),
        36_864: "perceptron/perceptron-mk1.5",
        60_000: "meta-llama/llama-3.2-1b-instruct",
        64_000: "deepseek/deepseek-r1",
        65_535: "microsoft/wizardlm-2-8x22b",
        65_536: (
            "allenai/olmo-3-32b-think cloudflare/clef google/gemini-3-pro-image-preview "
            "google/gemini-3.1-flash-image-preview google/gemini-3.1-flash-lite-image "
            "google/gemini-nano-banana-2.1 liquid/lfm-2.5-2.6b:free minimax/minimax-m2-her "
            "mistralai/mixtral-8x22b-instruct rekaai/reka-flash-3 z-ai/glm-4.5v "
        ),
        81_920: "morph/morph-v3-fast qwen/qwen3-30b-a3b-thinking-2507",
        123_000: "baidu/ernie-4.5-vl-424b-a47b",
        127_072: "perplexity/sonar",
        128_000: (
            "amazon/nova-micro-v1 bytedance/ui-tars-1.5-7b "
            "cognitivecomputations/dolphin-mistral-24b-venice-edition cohere/command-r-08-2024 "
            "cohere/command-r-plus-08-2024 cohere/command-r7b-12-2024 inception/mercury-2 "
            "inference-net/schematron-v2-small inference-net/schematron-v2-turbo liquid/lfm-2.5-2.6b "
            "liquid/lfm-2.5-24b-a2b mistral-large-2411 mistralai/mistral-large "
            "mistralai/mistral-small-3.1-24b-instruct nvidia/nemotron-3.5-content-safety:free openai/gpt-4-turbo "
            "openai/gpt-4o openai/gpt-audio* perplexity/sonar-deep-research perplexity/sonar-reasoning-pro "
            "venice/uncensored "
        ),
        131_000: "ibm-granite/granite-4.0-h-micro",
        131_072: (
            "aion-labs/aion-2.0 aion-labs/aion-3.0 arcee-ai/virtuoso-large google/gemini-3-pro-image "
            "google/gemini-3.1-flash-image google/gemini-omni-1.1-flash google/gemini-omni-1.2-flash "
            "google/gemma-3-12b-it google/gemma-3-4b-it ibm-granite/granite-4.1-8b ibm-granite/granite-4.2-8b "
            "inclusionai/ling-3.0-flash-vl meta-llama/llama-3.1-70b-instruct meta/muse-glimmer-30b "
            "mistralai/ministral-3b-2512 mistralai/mistral-medium-3 moonshotai/kimi-k2 "
            "nousresearch/hermes-3-llama-3.1-405b nousresearch/hermes-3-llama-3.1-70b nousresearch/hermes-4-405b "
            "nousresearch/hermes-4-70b nvidia/nemotron-3.5-content-safety openai/gpt-oss-120b:batch "
            "openai/gpt-oss-20b openai/gpt-oss-safeguard-20b qwen/qwen3-235b-a22b qwen/qwen3-8b "
            "qwen/qwen3-vl-235b-a22b-thinking qwen/qwen3-vl-32b-instruct qwen/qwen3-vl-8b-thinking "
            "sao10k/l3.3-euryale-70b tencent/hunyuan-a13b-instruct thedrummer/cydonia-24b-v4.1 "
            "upstage/solar-pro-3 z-ai/glm-4.5 z-ai/glm-4.6-20251208 z-ai/glm-4.6v "
        ),
        163_840: (
            "deepseek/deepseek-chat-v3-0324 deepseek/deepseek-v3.1-terminus deepseek/deepseek-v3.2-exp "
            "meta-llama/llama-guard-4-12b "
        ),
        192_000: "cohere/command-a-plus",
        200_000: (
            "anthropic/claude-3-haiku anthropic/claude-4.1-opus-20250805 anthropic/claude-4.5-haiku-20251001 "
            "anthropic/claude-4.5-opus-20251124 anthropic/claude-haiku-4.5 anthropic/claude-opus-4 openai/o1-pro "
            "openai/o3 openai/o4-mini perplexity/sonar-pro "
        ),
        202_752: "z-ai/glm-5-turbo z-ai/glm-5v-turbo",
        204_800: "minimax/minimax-m2.1",
        256_000: (
            "cohere/command-a cohere/north-mini-code:free mistralai/codestral-2508 "
            "nvidia/nemotron-3-nano-omni-30b-a3b-reasoning:free relace/relace-apply-3 relace/relace-search "
            "x-ai/grok-build-0.1 x-ai/grok-code-fast-1 "
        ),
        260_000: "inception/mercury-2.5",
        262_144: (
            "aion-labs/aion-3.5 arcee-ai/trinity-large-thinking bytedance-seed/seed-1.6 "
            "bytedance-seed/seed-2-1-turbo bytedance-seed/seed-2.0-code bytedance-seed/seed-2.0-lite "
            "bytedance-seed/seed-2.0-mini elorian/glimpse google/gemma-4-26b-a4b-it:free google/gemma-4-31b-it "
            "inclusionai/ling-3.0-flash inclusionai/ling-3.0-tiny inclusionai/ling-3.1-flash liquid/lfm-3-1.7b "
            "mistralai/devstral-2512 mistralai/ministral-14b-2512 mistralai/ministral-8b-2512 "
            "mistralai/mistral-large-2512 mistralai/mistral-medium-3-5 mistralai/mistral-medium-3.5-20260430 "
            "mistralai/mistral-small-2603:batch moonshotai/kimi-k2-0905 moonshotai/kimi-k2-thinking "
            "moonshotai/kimi-k2.7-code morph/morph-v3-large nex-agi/nex-n2.5-mini nex-agi/nex-n2.5-pro "
            "nvidia/nemotron-3-nano-30b-a3b nvidia/nemotron-3-super-120b-a12b:free nvidia/nemotron-3.5-lightning "
            "perplexity/pplx-decider-v1-27b perplexity/pplx-decider-v1.1-27b poolside/laguna-s-2.1:free "
            "poolside/laguna-xs-2.1 prism-ml/ternary-bonsai-2-27b prism-ml/ternary-bonsai-2-9b qwen/qwen3-max "
            "qwen/qwen3.5-122b-a10b qwen/qwen3.5-27b qwen/qwen3.6-max-preview qwen/qwen3.7-plus:batch "
            "qwen/qwen3.8-27b:batch recursive/flint-v1.0:free sakana/namazu-20260811 sakana/sakana-namazu "
            "stepfun/step-3.5-flash tencent/hy3-preview unbiased/pareto-26.9 xingchen-agi/xing4.0-29b-a4b:free "
        ),
        272_000: "openai/gpt-5.4-image-2",
        300_000: "amazon/nova-lite-v1 amazon/nova-pro-v1",
        400_000: "openai/gpt-5 openai/gpt-5.4-mini openai/gpt-5.4-nano openai/gpt-chat-latest ~openai/gpt-mini-latest",
        500_000: "x-ai/grok-4.5 x-ai/grok-4.6 x-ai/grok-4.7 ~x-ai/grok-latest",
        512_000: "dots-studio/dots-3-note-preview:free",
        524_288: "minimax/minimax-m3:batch thinkingmachines/inkling upstage/solar-mini4 upstage/solar-pro4",
        1_000_000: (
            "amazon/nova-2-lite-v1 amazon/nova-premier-v1 anthropic/claude-4.5-sonnet-20250929 "
            "anthropic/claude-4.6-opus-20260205 anthropic/claude-4.6-sonnet-20260217 "
            "anthropic/claude-4.7-opus-20260416 anthropic/claude-4.8-opus-20260528 "
            "anthropic/claude-5-fable-20260609 anthropic/claude-fable-5 anthropic/claude-haiku-5.5 "
            "anthropic/claude-opus-4.6 anthropic/claude-opus-4.7 anthropic/claude-opus-4.8 "
            "anthropic/claude-opus-5 anthropic/claude-sonnet-4.5 anthropic/claude-sonnet-4.6 "
            "anthropic/claude-sonnet-5 inception/mercury-3 minimax/minimax-m1 minimax/minimax-m3.1-flash:free "
            "nvidia/nemotron-3-ultra-550b-a55b:free nvidia/nemotron-3.5-lightning:free "
            "nvidia/nemotron-3.5-super-vl:free qwen/qwen-plus qwen/qwen3-coder-flash qwen/qwen3-coder-plus "
            "qwen/qwen3.5-flash-02-23 qwen/qwen3.5-flash-20260224 qwen/qwen3.5-plus-02-15 "
            "qwen/qwen3.5-plus-20260216 qwen/qwen3.5-plus-20260420 qwen/qwen3.6-flash qwen/qwen3.6-plus "
            "qwen/qwen3.7-flash qwen/qwen3.7-max qwen/qwen3.7-plus qwen/qwen3.8-27b qwen/qwen3.8-flash "
            "qwen/qwen3.8-max-0902 qwen/qwen3.8-max-20260902 qwen/qwen3.8-max-prime qwen/qwen3.8-omni-flash "
            "sakana/fugu-max sakana/fugu-ultra scaledown/extract scaledown/summarize x-ai/grok-4.3 "
            "z-ai/glm-5.3-prime ~anthropic/claude-fable-latest ~anthropic/claude-haiku-latest "
            "~anthropic/claude-opus-latest ~anthropic/claude-sonnet-latest "
        ),
        1_000_192: "minimax/minimax-01",
        1_040_000: "writer/palmyra-x5",
        1_047_576: "openai/gpt-4.1",
        1_048_576: (
            "deepseek/deepseek-v4-flash-0731 deepseek/deepseek-v4-flash-20260731 "
            "deepseek/deepseek-v4-flash-vision-exp deepseek/deepseek-v4-pro-0813 "
            "deepseek/deepseek-v4-pro-20260813 deepseek/deepseek-v4.1-flash fireworks/ember-1 "
            "google/gemini-2.5-flash google/gemini-2.5-pro google/gemini-3-flash-preview "
            "google/gemini-3.1-flash-lite google/gemini-3.1-pro-preview google/gemini-3.5-flash "
            "google/gemini-3.6-flash google/gemini-3.7-flash google/gemini-3.8-flash google/gemini-4-argon "
            "google/lyria-3-clip-preview google/lyria-3-pro-preview meta/muse-spark-1.1 meta/muse-spark-1.2 "
            "meta/muse-spark-1.3 meta/muse-spark-open meta/muse-wonder moonshotai/kimi-k3 "
            "nvidia/nemotron-3.5-super-vl particle-ai/particle-1 poolside/laguna-s-2.1 qwen/qwen3.8-2.4t-a95b "
            "reflection/beam-1.0-501b-a23b ricursiveai/ripple-65b-preview stealth/crouton-alpha "
            "stepfun/step-5-preview tencent/hy4 thinkingmachines/inkling-small:free thinkingmachines/inkling:free "
            "unbiased/pareto-26.10 xiaomi/mimo-v2.6-pro-ultraspeed z-ai/glm-5.2 z-ai/glm-5.3 "
            "z-ai/glm-5.3-flash:batch z-ai/glm-5.3-flashx ~deepseek/deepseek-flash-latest "
            "~deepseek/deepseek-pro-latest ~deepseek/deepseek-v4-flash-latest ~google/gemini-flash-latest "
            "~google/gemini-pro-latest ~moonshotai/kimi-latest ~unbiased/pareto-latest ~z-ai/glm-flash-latest "
            "~z-ai/glm-latest "
        ),
        1_048_756: "meituan/longcat-2.0",
        1_050_000: (
            "openai/gpt-5.4 openai/gpt-5.5 openai/gpt-5.6-luna openai/gpt-5.6-sol openai/gpt-5.6-terra "
            "openai/gpt-6-astra openai/gpt-6-luna openai/gpt-6-sol openai/gpt-6.1-sol openai/gpt-6.1-terra "
            "xiaomi/mimo-v2.6-flash xiaomi/mimo-v2.6-pro ~openai/gpt-astra-latest ~openai/gpt-latest "
            "~openai/gpt-luna-latest ~openai/gpt-sol-latest ~openai/gpt-terra-latest "
        ),
        1_310_720: "z-ai/glm-5.3-flash",
        2_000_000: "x-ai/grok-4-fast x-ai/grok-4.1-fast:free x-ai/grok-4.20",
    },
    "together": {
        32_768: "together/Tev1-4B-experimental",
        131_072: "meta-models/Muse-Glimmer-30B openai/gpt-oss-120b ricursive-ai/Ripple-65B-Preview",
        262_144: "Qwen/Qwen3.5-9B nvidia/NVIDIA-Nemotron-3.5-Super-VL",
        524_288: "MiniMaxAI/MiniMax-M3 thinkingmachines/Inkling",
        1_000_000: "Qwen/Qwen3.6-Plus Qwen/Qwen3.7-Plus Qwen/Qwen3.8-Flash deepseek-ai/DeepSeek-V4.1-Flash",
        1_048_575: "zai-org/GLM-5.2 zai-org/GLM-5.3",
        1_048_576: (
            "MiniMaxAI/MiniMax-M3.1-Flash deepseek-ai/DeepSeek-V4-Pro-0813 meta-models/Muse-Spark-Open-816B-A42B "
            "moonshotai/Kimi-K3 reflection/Beam-1.0-501B-A23B "
        ),
    },
    "xai": {
        32_768: "grok-2",
        131_072: "grok-3",
        256_000: "grok-4 grok-build-0.1 grok-code-fast",
        500_000: "grok-4.5 grok-4.6 grok-4.7 grok-latest x-ai/grok-4.5 x-ai/grok-4.6 x-ai/grok-4.7",
        1_000_000: "grok-4.20 grok-4.3 x-ai/grok-4.3",
        2_000_000: "grok-4-1-fast grok-4-fast",
    },
}
"""The names of models by window, by provider."""
