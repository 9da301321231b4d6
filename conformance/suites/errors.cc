// Errors: codes, messages, payloads, and which calls return them.
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "conformance/kit/steps.h"
#include "conformance/suites/suites.h"

namespace backplane::conformance {
namespace {

Err LookupError(Kit& k, int id) {
  KIT_ARGS(k, a, PJRT_Client_LookupDevice);
  a.client = k.client();
  a.id = id;
  return KIT_TRY(k, PJRT_Client_LookupDevice, a);
}

Err CompileError(Kit& k, const std::string& program) {
  PJRT_LoadedExecutable* none = nullptr;
  return TryCompile(k, program, "mlir", PlainOptions(k).Serialize(), &none);
}

Err CountError(Kit& k) {
  Launch launch;
  launch.executable = Compile(k, kAdd);
  launch.arguments = {{Put<float>(k, {4}, {1, 2, 3, 4})}};
  return TryExecute(k, &launch);
}

void Codes(Kit& k) {
  for (const auto& [what, e] :
       std::vector<std::pair<const char*, Err>>{{"a device that there is not", LookupError(k, 987654)},
                                                {"noise as a program", CompileError(k, "nonsense")},
                                                {"one argument for two", CountError(k)}}) {
    k.Require(!e.ok(), what, " gives no error");
    k.Require(e.code > 0 && e.code <= PJRT_Error_Code_UNAUTHENTICATED, what, ": ", CodeName(e.code), " is no code");
    k.Require(e.code != PJRT_Error_Code_UNKNOWN && e.code != PJRT_Error_Code_INTERNAL, what, " gives ", FormatError(e),
              "; the code does not tell that it is the caller's fault");
  }
}

void Messages(Kit& k) {
  for (const auto& [what, e] :
       std::vector<std::pair<const char*, Err>>{{"a device that there is not", LookupError(k, 987654)},
                                                {"noise as a program", CompileError(k, "nonsense")},
                                                {"one argument for two", CountError(k)}}) {
    k.Require(!e.ok(), what, " gives no error");
    k.Require(e.message.size() >= 8, what, ": the message is '", e.message, "'");
    k.Require(e.message.find('\0') == std::string::npos, what, ": the message has a NUL inside");
    for (char c : e.message)
      k.Require(static_cast<unsigned char>(c) >= ' ' || c == '\n' || c == '\t', what,
                ": the message has control characters");
  }
}

void NamesTheSubject(Kit& k) {
  Err e = LookupError(k, 987654);
  k.Require(absl::StrContains(e.message, "987654"), "the message does not name device 987654: ", e.message);
  e = CountError(k);
  k.Require(absl::StrContains(e.message, "1") && absl::StrContains(e.message, "2"),
            "the message does not say that 1 argument came for 2 parameters: ", e.message);
}

// The message must contain both the value found and the one expected.
void FoundAndExpected(Kit& k) {
  const Err e = CompileError(k, R"(module @m {
  func.func public @main(%x: tensor<4x8xf32>, %y: tensor<7x2xf32>) -> tensor<4x2xf32> {
    %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<7x2xf32>) -> tensor<4x2xf32>
    return %0 : tensor<4x2xf32>
  }
})");
  k.Require(absl::StrContains(e.message, "8") && absl::StrContains(e.message, "7"),
            "dims of 8 and 7 that must agree: the message names them not: ", e.message);
}

void Payloads(Kit& k) {
  KIT_ARGS(k, a, PJRT_Client_LookupDevice);
  a.client = k.client();
  a.id = 987654;
  PJRT_Error* error = k.Raw(&PJRT_Api::PJRT_Client_LookupDevice, "PJRT_Client_LookupDevice", &a);
  k.Require(error != nullptr, "no error");
  int count = 0;
  KIT_ARGS(k, p, PJRT_Error_ForEachPayload);
  p.error = error;
  p.user_arg = &count;
  p.visitor = [](const char* key, size_t key_size, const char*, size_t, void* arg) {
    if (key != nullptr && key_size > 0) ++*static_cast<int*>(arg);
  };
  KIT_OK(k, PJRT_Error_ForEachPayload, p);
  k.Take(error);
}

void PayloadKept(Kit& k) {
  static const Dims dims = {4};
  PJRT_NamedValue value{};
  value.struct_size = PJRT_NamedValue_STRUCT_SIZE;
  value.name = "kit.example/key";
  value.name_size = std::strlen(value.name);
  value.type = PJRT_NamedValue_kString;
  value.string_value = "carried";
  value.value_size = 7;
  KIT_ARGS(k, a, PJRT_Client_CreateErrorBuffer);
  if (k.minor() < 103) k.Unsupported("payloads go with error buffers since minor 0.103");
  a.client = k.client();
  a.error_code = PJRT_Error_Code_ABORTED;
  a.error_message = "words";
  a.error_message_size = 5;
  a.shape_dims = dims.data();
  a.shape_num_dims = 1;
  a.shape_element_type = PJRT_Buffer_Type_F32;
  a.memory = DefaultMemory(k, k.device());
  a.payload = &value;
  a.num_payload = 1;
  KIT_OK(k, PJRT_Client_CreateErrorBuffer, a);
  KIT_ARGS(k, w, PJRT_Event_Await);
  w.event = ReadyEvent(k, a.buffer);
  PJRT_Error* error = k.Raw(&PJRT_Api::PJRT_Event_Await, "PJRT_Event_Await", &w);
  k.Require(error != nullptr, "an error buffer is ready without an error");
  std::string found;
  KIT_ARGS(k, p, PJRT_Error_ForEachPayload);
  p.error = error;
  p.user_arg = &found;
  p.visitor = [](const char* key, size_t key_size, const char* text, size_t size, void* arg) {
    if (std::string(key, key_size) == "kit.example/key") static_cast<std::string*>(arg)->assign(text, size);
  };
  KIT_OK(k, PJRT_Error_ForEachPayload, p);
  k.Require(found == "carried", "the payload of an error was lost on its way through a buffer");
  k.Take(error);
}

void MessageLives(Kit& k) {
  std::vector<PJRT_Error*> errors;
  std::vector<std::pair<const char*, std::string>> texts;
  for (int i = 0; i < 50; ++i) {
    KIT_ARGS(k, a, PJRT_Client_LookupDevice);
    a.client = k.client();
    a.id = 900000 + i;
    PJRT_Error* error = k.Raw(&PJRT_Api::PJRT_Client_LookupDevice, "PJRT_Client_LookupDevice", &a);
    k.Require(error != nullptr, "no error");
    KIT_ARGS(k, m, PJRT_Error_Message);
    m.error = error;
    k.api().PJRT_Error_Message(&m);
    errors.push_back(error);
    texts.emplace_back(m.message, std::string(m.message, m.message_size));
  }
  for (const auto& [data, copy] : texts)
    k.Require(std::string(data, copy.size()) == copy, "a message changed while its error lives");
  for (PJRT_Error* error : errors) k.Take(error);
}

void InThreads(Kit& k) {
  k.client();
  std::vector<std::thread> threads;
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&k, t] {
      for (int i = 0; i < 200; ++i) {
        const int id = 900000 + t * 1000 + i;
        const Err e = LookupError(k, id);
        k.Require(!e.ok(), "no error");
        k.Require(!absl::StrContains(e.message, "9") || absl::StrContains(e.message, absl::StrCat(id)),
                  "a thread got the error of another one: '", e.message, "' for device ", id);
      }
    });
  }
  for (auto& t : threads) t.join();
}

// Programs with small corruptions must give an error with a message or compile, and never end the process.
void DamagedPrograms(Kit& k) {
  uint32_t random = 12345;
  const auto next = [&](size_t n) {
    random = random * 1664525u + 1013904223u;
    return static_cast<size_t>(random >> 8) % n;
  };
  int refused = 0;
  const char* programs[] = {kAdd, kMatmul, kTwoOutputs, kSumRows, kConstant, kCount};
  for (int i = 0; i < 150; ++i) {
    std::string text = programs[next(6)];
    for (size_t damage = 0, count = 1 + next(3); damage < count; ++damage) {
      const size_t at = next(text.size()), n = std::min(text.size() - at, 1 + next(12));
      switch (next(5)) {
        case 0:
          text[at] = static_cast<char>(next(256));
          break;
        case 1:
          text.erase(at, n);
          break;
        case 2:
          text.insert(at, text.substr(at, n));
          break;
        case 3:
          text.resize(at);
          break;
        default:
          text.insert(at, "9");
          break;
      }
      if (text.empty()) text = "x";
    }
    PJRT_LoadedExecutable* loaded = nullptr;
    const Err e = TryCompile(k, text, "mlir", PlainOptions(k).Serialize(), &loaded);
    if (e.ok()) {
      Destroy(k, loaded);
      continue;
    }
    ++refused;
    k.Require(!e.message.empty(), "a damaged program gives ", CodeName(e.code), " without a message:\n", text);
  }
  k.Note(absl::StrCat(refused, " of 150 refused"));
}

constexpr Check kChecks[] = {
    {"errors.codes", "PJRT_Error_GetCode", "the code of an error tells that it is the caller's fault", Codes},
    {"errors.messages", "PJRT_Error_Message", "an error has words that can be printed", Messages},
    {"errors.subject", "", "the words name what was asked for", NamesTheSubject, 0, true},
    {"errors.found_and_expected", "", "the words say what was found and what was expected", FoundAndExpected, 0, true},
    {"errors.payloads", "PJRT_Error_ForEachPayload", "payloads can be visited", Payloads},
    {"errors.payload_kept", "PJRT_Error_ForEachPayload PJRT_Client_CreateErrorBuffer", "a payload goes with its error",
     PayloadKept},
    {"errors.message_lives", "", "words live as long as their error", MessageLives},
    {"errors.threads", "", "errors of threads do not mix", InThreads},
    {"errors.damaged_programs", "", "no damaged program ends the process", DamagedPrograms, 60},
};

}  // namespace

absl::Span<const Check> ErrorsSuite() { return kChecks; }

}  // namespace backplane::conformance
