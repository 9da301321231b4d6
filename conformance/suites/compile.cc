// Compilation: program formats, options, and programs that must be rejected.
#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "conformance/kit/programs_binary.h"
#include "conformance/kit/steps.h"
#include "conformance/suites/suites.h"

namespace backplane::conformance {
namespace {

void ExpectAdds(Kit& k, PJRT_LoadedExecutable* add) {
  k.Require(RunF32(k, add, {{1, 2, 3, 4}, {10, 20, 30, 40}}) == std::vector<float>({11, 22, 33, 44}),
            "the program gives wrong results");
  Destroy(k, add);
}

void Form(Kit& k, absl::string_view program, const char* format, const char* what) {
  PJRT_LoadedExecutable* add = nullptr;
  const Err e = TryCompile(k, program, format, PlainOptions(k).Serialize(), &add);
  if (e.code == PJRT_Error_Code_UNIMPLEMENTED) k.Unsupported("no ", what, ": ", FormatError(e));
  k.Require(e.ok(), what, ": ", FormatError(e));
  ExpectAdds(k, add);
}

void Text(Kit& k) { Form(k, kAdd, "mlir", "StableHLO text"); }
void Artifact(Kit& k) { Form(k, GetBytes(kAddArtifact), "mlir", "portable artifacts"); }
void HloProto(Kit& k) { Form(k, GetBytes(kAddHloProto), "hlo", "HLO protos"); }

// Requires that a program is rejected. `words` must occur in the message; empty for any message.
void Refused(Kit& k, absl::string_view program, absl::string_view what, absl::string_view words,
             absl::string_view format = "mlir") {
  PJRT_LoadedExecutable* none = nullptr;
  const Err e = TryCompile(k, program, format, PlainOptions(k).Serialize(), &none);
  k.Require(!e.ok(), what, " compiles");
  k.Require(!e.message.empty(), what, ": ", CodeName(e.code), " without a message");
  k.Require(absl::StrContains(absl::AsciiStrToLower(e.message), words), what, ": the message does not speak of '",
            words, "': ", e.message);
  k.Note(FormatError(e));
}

void Empty(Kit& k) { Refused(k, "", "an empty program", ""); }
void Noise(Kit& k) { Refused(k, absl::string_view("\0\1\2 nonsense \xff\xfe", 15), "noise", ""); }
void NoiseHlo(Kit& k) { Refused(k, absl::string_view("\0\1\2 nonsense \xff\xfe", 15), "noise as HLO", "", "hlo"); }
void Unfinished(Kit& k) { Refused(k, absl::string_view(kAdd).substr(0, 120), "an unfinished program", ""); }
void CutArtifact(Kit& k) {
  const absl::string_view whole = GetBytes(kAddArtifact);
  for (size_t n = 1; n < whole.size(); n += 7) {
    PJRT_LoadedExecutable* none = nullptr;
    const Err e = TryCompile(k, whole.substr(0, n), "mlir", PlainOptions(k).Serialize(), &none);
    k.Require(!e.ok(), "a portable artifact cut to ", n, " of ", whole.size(), " bytes compiles");
    k.Require(!e.message.empty(), "a cut artifact: ", CodeName(e.code), " without a message");
  }
}
void UnknownFormat(Kit& k) { Refused(k, kAdd, "a program of the format 'frmt'", "frmt", "frmt"); }
void UnknownOp(Kit& k) {
  Refused(k, absl::StrReplaceAll(kAdd, {{"stablehlo.add", "stablehlo.frobnicate"}}), "an unknown operation",
          "frobnicate");
}
void UnknownValue(Kit& k) {
  Refused(k, absl::StrReplaceAll(kAdd, {{"%x, %y :", "%x, %zz :"}}), "an unknown value", "zz");
}
void WrongResultType(Kit& k) {
  Refused(k,
          absl::StrReplaceAll(kAdd,
                              {{"%x, %y : tensor<4xf32>", "%x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<5xf32>"}}),
          "a sum of another shape than its operands", "");
}
void ContractingDims(Kit& k) {
  Refused(k, R"(module @m {
  func.func public @main(%x: tensor<4x8xf32>, %y: tensor<7x2xf32>) -> tensor<4x2xf32> {
    %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<7x2xf32>) -> tensor<4x2xf32>
    return %0 : tensor<4x2xf32>
  }
})",
          "a product of dims that differ", "dim");
}
void NoMain(Kit& k) {
  Refused(k, "module { func.func @f() { return } func.func @g() { return } }", "a program without main", "");
}

// Invalid programs are the caller's fault, and the error code must tell so.
void CodeOfWrongProgram(Kit& k) {
  for (const std::string& program : {std::string("nonsense"), absl::StrReplaceAll(kAdd, {{"%x, %y :", "%x, %zz :"}})}) {
    PJRT_LoadedExecutable* none = nullptr;
    const Err e = TryCompile(k, program, "mlir", PlainOptions(k).Serialize(), &none);
    k.Require(e.code == PJRT_Error_Code_INVALID_ARGUMENT || e.code == PJRT_Error_Code_UNIMPLEMENTED,
              "a wrong program gives ", FormatError(e), "; expected INVALID_ARGUMENT");
  }
}

void BadOptions(Kit& k) {
  for (const std::string& options :
       {std::string("\x1a\x7f\x20\x01", 4), std::string("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
        std::string("\x1a\x04\x20", 3)}) {
    PJRT_LoadedExecutable* none = nullptr;
    const Err e = TryCompile(k, kAdd, "mlir", options, &none);
    k.Require(!e.ok(), "compile options that are no message compile");
    k.Require(!e.message.empty(), "malformed options: ", CodeName(e.code), " without a message");
  }
}

void TooManyDevices(Kit& k) {
  host::CompileOptions options = PlainOptions(k);
  options.num_replicas = 4096;
  PJRT_LoadedExecutable* none = nullptr;
  const Err e = TryCompile(k, kAdd, "mlir", options.Serialize(), &none);
  k.Require(!e.ok(), "a program for 4096 replicas compiles for ", k.devices().size(), " devices");
  k.Require(!e.message.empty(), CodeName(e.code), " without a message");
}

void AbsentDevice(Kit& k) {
  host::CompileOptions options = PlainOptions(k);
  options.device_assignment = {987654};
  PJRT_LoadedExecutable* none = nullptr;
  const Err e = TryCompile(k, kAdd, "mlir", options.Serialize(), &none);
  k.Require(!e.ok(), "a program for device 987654 compiles");
  k.Require(!e.message.empty(), CodeName(e.code), " without a message");
}

void ChosenDevice(Kit& k) {
  host::CompileOptions options = PlainOptions(k);
  options.device_assignment = {GetId(k, k.device(1))};
  PJRT_LoadedExecutable* add = Compile(k, kAdd, options);
  PJRT_Buffer* x = Put<float>(k, {4}, {1, 2, 3, 4}, k.device(1));
  const auto outputs = Execute(k, add, {x, x});
  k.Require(GetDevice(k, outputs[0]) == k.device(1),
            "a program compiled for the second device gives a result on another one");
  k.Require(GetAs<float>(k, outputs[0]) == std::vector<float>({2, 4, 6, 8}), "wrong results");
}

// The caller may change the program's bytes after the call.
void BorrowsProgram(Kit& k) {
  std::string code = kAdd, format = "mlir", options = PlainOptions(k).Serialize();
  PJRT_Program p{};
  p.struct_size = PJRT_Program_STRUCT_SIZE;
  p.code = code.data();
  p.code_size = code.size();
  p.format = format.data();
  p.format_size = format.size();
  KIT_ARGS(k, a, PJRT_Client_Compile);
  a.client = k.client();
  a.program = &p;
  a.compile_options = options.data();
  a.compile_options_size = options.size();
  KIT_OK(k, PJRT_Client_Compile, a);
  k.Require(code == kAdd, "the program's bytes were changed");
  std::fill(code.begin(), code.end(), 'x');
  std::fill(options.begin(), options.end(), '\xff');
  p.code = nullptr;
  ExpectAdds(k, a.executable);
}

void ManyPrograms(Kit& k) {
  std::vector<PJRT_LoadedExecutable*> all;
  for (int i = 0; i < 24; ++i) {
    all.push_back(Compile(k, absl::StrReplaceAll(kConstant, {{"1.0", absl::StrCat(i, ".0")}})));
  }
  for (int i = 0; i < 24; ++i) {
    const auto outputs = Execute(k, all[static_cast<size_t>(i)], {});
    k.Require(GetAs<float>(k, outputs[0]) == std::vector<float>({static_cast<float>(i), 2, 3}), "program ", i,
              " of 24 gives the results of another");
  }
}

void LongProgram(Kit& k) {
  std::string body = "%v0 = stablehlo.add %x, %y : tensor<4xf32>\n";
  const int steps = 1000;
  for (int i = 1; i <= steps; ++i)
    absl::StrAppend(&body, "    %v", i, " = stablehlo.", i % 2 == 0 ? "subtract" : "add", " %v", i - 1,
                    ", %y : tensor<4xf32>\n");
  const std::string program = absl::StrReplaceAll(
      kAdd, {{"%0 = stablehlo.add %x, %y : tensor<4xf32>", body}, {"return %0", absl::StrCat("return %v", steps)}});
  ExpectAdds(k, Compile(k, program));
}

void ManyArguments(Kit& k) {
  const int count = 300;
  std::string parameters, body, last = "%x0";
  for (int i = 0; i < count; ++i) absl::StrAppend(&parameters, i == 0 ? "" : ", ", "%x", i, ": tensor<2xf32>");
  for (int i = 1; i < count; ++i) {
    absl::StrAppend(&body, "    %v", i, " = stablehlo.add ", last, ", %x", i, " : tensor<2xf32>\n");
    last = absl::StrCat("%v", i);
  }
  PJRT_LoadedExecutable* sum =
      Compile(k, absl::StrCat("module @m {\n  func.func public @main(", parameters, ") -> tensor<2xf32> {\n", body,
                              "    return ", last, " : tensor<2xf32>\n  }\n}\n"));
  std::vector<std::vector<float>> arguments(count, {1, 2});
  k.Require(RunF32(k, sum, arguments) == std::vector<float>({count, 2.0f * count}), "a sum of ", count,
            " arguments is wrong");
}

void WorksAfterErrors(Kit& k) {
  for (int i = 0; i < 20; ++i) {
    PJRT_LoadedExecutable* none = nullptr;
    TryCompile(k, i % 2 == 0 ? "nonsense" : "module { func.func @main( }", "mlir", PlainOptions(k).Serialize(), &none);
  }
  ExpectAdds(k, Compile(k, kAdd));
}

constexpr Check kChecks[] = {
    {"compile.text", "PJRT_Client_Compile", "StableHLO as text", Text},
    {"compile.artifact", "PJRT_Client_Compile", "StableHLO as a portable artifact, as JAX sends it", Artifact},
    {"compile.hlo_proto", "PJRT_Client_Compile", "an HLO proto, as gopjrt sends it", HloProto},
    {"compile.empty", "", "an empty program gives an error", Empty},
    {"compile.noise", "", "bytes that are no program give an error", Noise},
    {"compile.noise_hlo", "", "bytes that are no HLO proto give an error", NoiseHlo},
    {"compile.unfinished", "", "an unfinished program gives an error", Unfinished},
    {"compile.cut_artifact", "", "a portable artifact that was cut anywhere gives an error", CutArtifact},
    {"compile.unknown_format", "", "an unknown format is refused by name", UnknownFormat},
    {"compile.unknown_op", "", "an unknown operation is refused by name", UnknownOp},
    {"compile.unknown_value", "", "an unknown value is refused by name", UnknownValue, 0, true},
    {"compile.wrong_result", "", "a result type that does not follow from the operands gives an error",
     WrongResultType},
    {"compile.contracting_dims", "", "dims that must agree and do not are named", ContractingDims},
    {"compile.no_main", "", "a program without main gives an error", NoMain},
    {"compile.code_of_wrong_program", "", "a wrong program is the caller's fault, by its code", CodeOfWrongProgram},
    {"compile.bad_options", "", "options that are no message give an error", BadOptions},
    {"compile.too_many_devices", "", "more replicas than devices give an error", TooManyDevices},
    {"compile.absent_device", "", "an assignment to a device that there is not gives an error", AbsentDevice},
    {"compile.chosen_device", "devices:2", "a program runs where its assignment says", ChosenDevice},
    {"compile.borrows", "", "the program's bytes are the caller's again after the call", BorrowsProgram},
    {"compile.many", "", "many programs live side by side", ManyPrograms, 60},
    {"compile.long", "", "a program of 1000 operations", LongProgram, 60},
    {"compile.many_arguments", "", "a program of 300 arguments", ManyArguments, 60},
    {"compile.after_errors", "", "the client works on after programs that were refused", WorksAfterErrors},
};

}  // namespace

absl::Span<const Check> CompileSuite() { return kChecks; }

}  // namespace backplane::conformance
