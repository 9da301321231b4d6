// Code objects of AMD's GPUs, run by the interpreter.
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"
#include "plugins/hip/emulated_runtime/kernel_image.h"

namespace backplane::hip::emulated {
namespace {

KernelFacts FactsOf(const isa::KernelInfo& info) {
  KernelFacts facts;
  facts.name = info.name;
  if (info.max_block_threads > 0) facts.max_threads = std::min<uint32_t>(1024, info.max_block_threads);
  facts.shared_bytes = info.lds_bytes;
  facts.scratch_bytes = info.scratch_bytes;
  facts.registers = info.vgprs;
  facts.has_parameters = true;
  for (const isa::KernelArgument& argument : info.arguments) {
    if (absl::StartsWith(argument.value_kind, "hidden_")) continue;
    facts.parameters.push_back({argument.offset, argument.size});
    facts.argument_bytes = std::max(facts.argument_bytes, argument.offset + argument.size);
  }
  return facts;
}

class AmdImage : public KernelImage {
 public:
  AmdImage(std::string elf, std::unique_ptr<isa::CodeObject> code) : elf_(std::move(elf)), code_(std::move(code)) {
    for (const isa::KernelInfo& info : code_->kernels()) kernels_.emplace(info.name, FactsOf(info));
  }

  const KernelFacts* Find(absl::string_view name) const override {
    const auto found = kernels_.find(name);
    return found == kernels_.end() ? nullptr : &found->second;
  }

  absl::Status Run(const KernelFacts& kernel, const KernelLaunch& launch) const override {
    // The interpreter asks the guard about everything, the code object's own tables included.
    class WithOwnMemory : public isa::MemoryGuard {
     public:
      WithOwnMemory(const isa::CodeObject& code, const isa::MemoryGuard* other) : code_(code), other_(other) {}
      bool IsAccessible(uint64_t address, uint64_t bytes, bool write) const override {
        if (!write && code_.Owns(address, bytes)) return true;
        return other_ == nullptr || other_->IsAccessible(address, bytes, write);
      }

     private:
      const isa::CodeObject& code_;
      const isa::MemoryGuard* const other_;
    };
    const WithOwnMemory guard(*code_, launch.guard);
    isa::Launch request;
    request.kernel = kernel.name;
    request.blocks = {launch.blocks.x, launch.blocks.y, launch.blocks.z};
    request.threads = {launch.threads.x, launch.threads.y, launch.threads.z};
    request.dynamic_lds = launch.dynamic_shared_bytes;
    request.kernarg = launch.arguments;
    request.guard = &guard;
    return isa::Execute(*code_, request).status();
  }

  std::optional<AddressRange> FindVariable(absl::string_view name) const override {
    const std::optional<ElfSymbol> symbol = FindElfSymbol(elf_, name);
    const absl::StatusOr<uint64_t> address = code_->FindSymbolAddress(name);
    if (!symbol.has_value() || !address.ok()) return std::nullopt;
    return AddressRange{*address, *address + symbol->bytes};
  }

  bool traces_accesses() const override { return true; }

 private:
  const std::string elf_;
  const std::unique_ptr<isa::CodeObject> code_;
  std::map<std::string, KernelFacts, std::less<>> kernels_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<KernelImage>> LoadAmdImage(absl::string_view elf, absl::string_view architecture) {
  ASSIGN_OR_RETURN(std::unique_ptr<isa::CodeObject> code, isa::LoadCodeObject(elf));
  const absl::string_view target = code->target();
  if (target.substr(0, target.find(':')) != architecture) {
    return absl::NotFoundError(absl::StrCat("the code object is for ", target, " and the device is a ", architecture));
  }
  return std::unique_ptr<KernelImage>(std::make_unique<AmdImage>(std::string(elf), std::move(code)));
}

}  // namespace backplane::hip::emulated
