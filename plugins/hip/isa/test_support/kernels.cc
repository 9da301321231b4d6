#include "plugins/hip/isa/test_support/kernels.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/MC/MCAsmBackend.h"
#include "llvm/MC/MCAsmInfo.h"
#include "llvm/MC/MCCodeEmitter.h"
#include "llvm/MC/MCContext.h"
#include "llvm/MC/MCInstrInfo.h"
#include "llvm/MC/MCObjectFileInfo.h"
#include "llvm/MC/MCObjectWriter.h"
#include "llvm/MC/MCParser/MCAsmParser.h"
#include "llvm/MC/MCParser/MCTargetAsmParser.h"
#include "llvm/MC/MCRegisterInfo.h"
#include "llvm/MC/MCStreamer.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ELF.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "sdk/codegen/ir_target.h"
#include "sdk/codegen/llvm_includes.h"
#include "sdk/codegen/target_machine.h"

namespace backplane::hip::isa {
namespace {

struct TemporaryFolder {
  std::string path;
  TemporaryFolder() {
    std::string pattern = absl::StrCat(std::filesystem::temp_directory_path().string(), "/isa_XXXXXX");
    if (mkdtemp(pattern.data()) != nullptr) path = pattern;
  }
  ~TemporaryFolder() {
    std::remove((path + "/in.o").c_str());
    std::remove((path + "/out.so").c_str());
    rmdir(path.c_str());
  }
};

absl::Status TestError(absl::string_view what) { return absl::InternalError(what); }

}  // namespace

void InitializeAmdGpu() {
  LLVMInitializeAMDGPUTargetInfo();
  LLVMInitializeAMDGPUTarget();
  LLVMInitializeAMDGPUTargetMC();
  LLVMInitializeAMDGPUAsmPrinter();
  LLVMInitializeAMDGPUAsmParser();
}

absl::StatusOr<std::string> LinkCodeObject(const std::string& object) {
  TemporaryFolder folder;
  if (folder.path.empty()) return TestError("no temporary folder");
  const std::string in = folder.path + "/in.o", out = folder.path + "/out.so";
  std::ofstream(in, std::ios::binary) << object;
  char lld[] = BACKPLANE_LLD, shared[] = "-shared", output[] = "-o";
  char* arguments[] = {lld, shared, const_cast<char*>(in.c_str()), output, const_cast<char*>(out.c_str()), nullptr};
  pid_t child = 0;
  int status = 0;
  if (posix_spawn(&child, lld, nullptr, nullptr, arguments, environ) != 0 || waitpid(child, &status, 0) != child ||
      status != 0) {
    return TestError(absl::StrCat("the linker ended with status ", status));
  }
  std::ifstream file(out, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

absl::StatusOr<std::string> CompileIr(absl::string_view machine, absl::string_view ir) {
  InitializeAmdGpu();
  const codegen::IrTarget target = codegen::AmdGpuTarget(machine);
  auto generator = codegen::MakeTargetMachine(target);
  if (!generator.ok()) return generator.status();
  llvm::LLVMContext context;
  llvm::SMDiagnostic error;
  std::unique_ptr<llvm::Module> module =
      llvm::parseAssemblyString(llvm::StringRef(ir.data(), ir.size()), error, context);
  if (module == nullptr) {
    return TestError(
        absl::StrCat("line ", error.getLineNo(), ": ", error.getMessage().str(), ": ", error.getLineContents().str()));
  }
  codegen::SetModuleTarget(*module, target, **generator);
  for (llvm::Function& f : *module) {
    if (!f.isDeclaration()) codegen::SetFunctionAttributes(f, target);
  }
  auto object = codegen::GenerateCode(*module, **generator, target, codegen::CodeKind::kObject);
  if (!object.ok()) return object.status();
  return LinkCodeObject(*object);
}

absl::StatusOr<std::string> Assemble(absl::string_view machine, absl::string_view assembly) {
  InitializeAmdGpu();
  const std::string triple = "amdgcn-amd-amdhsa", cpu(machine);
  std::string error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (target == nullptr) return TestError(error);
  llvm::MCTargetOptions options;
  std::unique_ptr<llvm::MCRegisterInfo> registers(target->createMCRegInfo(triple));
  std::unique_ptr<llvm::MCAsmInfo> info(target->createMCAsmInfo(*registers, triple, options));
  std::unique_ptr<llvm::MCInstrInfo> instructions(target->createMCInstrInfo());
  std::unique_ptr<llvm::MCSubtargetInfo> subtarget(target->createMCSubtargetInfo(triple, cpu, ""));
  llvm::SourceMgr sources;
  std::string messages;
  sources.setDiagHandler(
      [](const llvm::SMDiagnostic& d, void* to) {
        absl::StrAppend(static_cast<std::string*>(to), "line ", d.getLineNo(), ": ", d.getMessage().str(), ": ",
                        d.getLineContents().str(), "\n");
      },
      &messages);
  sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBufferCopy(llvm::StringRef(assembly.data(), assembly.size())),
                             llvm::SMLoc());
  llvm::MCContext context(llvm::Triple(triple), info.get(), registers.get(), subtarget.get(), &sources, &options);
  std::unique_ptr<llvm::MCObjectFileInfo> sections(target->createMCObjectFileInfo(context, /*PIC=*/true));
  context.setObjectFileInfo(sections.get());
  llvm::SmallVector<char, 0> object;
  llvm::raw_svector_ostream stream(object);
  std::unique_ptr<llvm::MCAsmBackend> backend(target->createMCAsmBackend(*subtarget, *registers, options));
  std::unique_ptr<llvm::MCObjectWriter> writer = backend->createObjectWriter(stream);
  std::unique_ptr<llvm::MCCodeEmitter> emitter(target->createMCCodeEmitter(*instructions, context));
  std::unique_ptr<llvm::MCStreamer> streamer(target->createMCObjectStreamer(
      llvm::Triple(triple), context, std::move(backend), std::move(writer), std::move(emitter), *subtarget));
  std::unique_ptr<llvm::MCAsmParser> parser(llvm::createMCAsmParser(sources, context, *streamer, *info));
  std::unique_ptr<llvm::MCTargetAsmParser> machine_parser(
      target->createMCAsmParser(*subtarget, *parser, *instructions, options));
  parser->setTargetParser(*machine_parser);
  if (parser->Run(/*NoInitialTextSection=*/false) || !messages.empty()) return TestError(messages);
  return LinkCodeObject(std::string(object.begin(), object.end()));
}

std::string KernelAssembly(absl::string_view machine, absl::string_view body, int pointers, int lds_bytes) {
  const bool wave32 = machine == "gfx1100";
  std::string arguments;
  for (int i = 0; i < pointers; ++i) {
    absl::StrAppend(&arguments, "      - .address_space: global\n        .offset: ", 8 * i,
                    "\n        .size: 8\n        .value_kind: global_buffer\n");
  }
  return absl::StrCat(
      ".amdgcn_target \"amdgcn-amd-amdhsa--", machine,
      "\"\n.amdhsa_code_object_version 5\n.text\n.globl k\n.p2align 8\n", ".type k,@function\nk:\n", body,
      "\n.Lend:\n.size k, .Lend-k\n.rodata\n.p2align 6\n.amdhsa_kernel k\n", "  .amdhsa_group_segment_fixed_size ",
      lds_bytes, "\n  .amdhsa_user_sgpr_count ", wave32 ? 15 : 2,
      "\n  .amdhsa_user_sgpr_kernarg_segment_ptr 1\n  .amdhsa_kernarg_size ", 8 * pointers,
      "\n  .amdhsa_system_sgpr_workgroup_id_x 1\n  .amdhsa_next_free_vgpr 64\n  .amdhsa_next_free_sgpr 64\n",
      wave32 ? "  .amdhsa_wavefront_size32 1\n" : "  .amdhsa_accum_offset 32\n",
      ".end_amdhsa_kernel\n.amdgpu_metadata\n---\n", "amdhsa.kernels:\n  - .args:\n", arguments,
      "    .group_segment_fixed_size: ", lds_bytes,
      "\n    .kernarg_segment_align: 8\n    .kernarg_segment_size: ", 8 * pointers,
      "\n    .max_flat_workgroup_size: 1024\n    .name: k\n    .private_segment_fixed_size: 0\n    .sgpr_count: 64\n",
      "    .symbol: k.kd\n    .vgpr_count: 64\n    .wavefront_size: ", wave32 ? 32 : 64,
      "\namdhsa.target: amdgcn-amd-amdhsa--", machine, "\namdhsa.version:\n  - 1\n  - 2\n...\n.end_amdgpu_metadata\n");
}

bool ReplaceByNop(std::string& elf, uint32_t word, uint32_t mask, int occurrence) {
  auto file = llvm::object::ELFFile<llvm::object::ELF64LE>::create(elf);
  if (!file) return llvm::consumeError(file.takeError()), false;
  auto segments = file->program_headers();
  if (!segments) return llvm::consumeError(segments.takeError()), false;
  for (const auto& s : *segments) {
    if (s.p_type != llvm::ELF::PT_LOAD || (s.p_flags & llvm::ELF::PF_X) == 0) continue;
    for (uint64_t at = s.p_offset; at + 4 <= s.p_offset + s.p_filesz; at += 4) {
      uint32_t found = 0;
      std::memcpy(&found, elf.data() + at, 4);
      if ((found & mask) != word || occurrence-- != 0) continue;
      constexpr uint32_t kNop = 0xbf800000;
      std::memcpy(elf.data() + at, &kNop, 4);
      return true;
    }
  }
  return false;
}

absl::StatusOr<Statistics> RunKernel(const std::string& elf, const std::string& kernel, Dim3 blocks, Dim3 threads,
                                     const Arguments& arguments, const MemoryGuard* guard, uint32_t dynamic_lds) {
  auto code = LoadCodeObject(elf);
  if (!code.ok()) return code.status();
  Launch launch;
  launch.kernel = kernel;
  launch.blocks = blocks;
  launch.threads = threads;
  launch.dynamic_lds = dynamic_lds;
  launch.kernarg = arguments.bytes();
  launch.guard = guard;
  launch.max_instructions = 50'000'000;
  return Execute(**code, launch);
}

}  // namespace backplane::hip::isa
