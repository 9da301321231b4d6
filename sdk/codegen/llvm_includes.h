// The LLVM headers that code generation needs, in one place. They are slow to compile: include this header only from
// .cc files.
#ifndef BACKPLANE_SDK_CODEGEN_LLVM_INCLUDES_H_
#define BACKPLANE_SDK_CODEGEN_LLVM_INCLUDES_H_

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "llvm/IR/BasicBlock.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/DataLayout.h"
#include "llvm/IR/DerivedTypes.h"
#include "llvm/IR/Function.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/IntrinsicsX86.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#pragma GCC diagnostic pop

#endif  // BACKPLANE_SDK_CODEGEN_LLVM_INCLUDES_H_
