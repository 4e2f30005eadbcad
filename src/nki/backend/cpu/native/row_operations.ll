; Made by tools/native_runtime.py with clang version 22.1.8. SHA-256 of the C files:
; 32ef390d0f920d9e363d6b888ff6d2bad9e51cd26460bd5875bf3ad4b633854c

%union.anon.3 = type { [6 x i32] }
%union.anon.2 = type { [6 x <4 x i32>] }

define void @nki_top8(ptr %0, i64 %1, ptr %2, i64 %3, i64 %4, i64 %5) {
  %7 = icmp sgt i64 %4, 0
  br i1 %7, label %8, label %157

8:
  %9 = icmp slt i64 %5, 16
  br label %10

10:
  %11 = phi ptr [ %0, %8 ], [ %118, %91 ]
  %12 = phi i64 [ %4, %8 ], [ %117, %91 ]
  %13 = phi ptr [ %2, %8 ], [ %119, %91 ]
  br i1 %9, label %22, label %30

14:
  %15 = phi i32 [ %31, %30 ], [ %75, %52 ]
  %16 = phi i32 [ %32, %30 ], [ %73, %52 ]
  %17 = phi i32 [ %33, %30 ], [ %71, %52 ]
  %18 = phi i32 [ %36, %30 ], [ %69, %52 ]
  %19 = phi <4 x i32> [ %37, %30 ], [ %87, %52 ]
  %20 = add i64 %34, 16
  %21 = icmp sgt i64 %20, %5
  br i1 %21, label %22, label %30

22:
  %23 = phi i32 [ -2147483648, %10 ], [ %15, %14 ]
  %24 = phi i32 [ -2147483648, %10 ], [ %16, %14 ]
  %25 = phi i32 [ -2147483648, %10 ], [ %17, %14 ]
  %26 = phi i32 [ -2147483648, %10 ], [ %18, %14 ]
  %27 = phi i64 [ 0, %10 ], [ %34, %14 ]
  %28 = phi <4 x i32> [ splat (i32 -2147483648), %10 ], [ %19, %14 ]
  %29 = icmp slt i64 %27, %5
  br i1 %29, label %121, label %91

30:
  %31 = phi i32 [ %15, %14 ], [ -2147483648, %10 ]
  %32 = phi i32 [ %16, %14 ], [ -2147483648, %10 ]
  %33 = phi i32 [ %17, %14 ], [ -2147483648, %10 ]
  %34 = phi i64 [ %20, %14 ], [ 16, %10 ]
  %35 = phi i64 [ %34, %14 ], [ 0, %10 ]
  %36 = phi i32 [ %18, %14 ], [ -2147483648, %10 ]
  %37 = phi <4 x i32> [ %19, %14 ], [ splat (i32 -2147483648), %10 ]
  %38 = getelementptr inbounds float, ptr %13, i64 %35
  %39 = load <16 x float>, ptr %38, align 4
  %40 = bitcast <16 x float> %39 to <16 x i32>
  %41 = fcmp ord <16 x float> %39, zeroinitializer
  %42 = icmp slt <16 x i32> %40, zeroinitializer
  %43 = select <16 x i1> %42, <16 x i32> splat (i32 2147483647), <16 x i32> zeroinitializer
  %44 = xor <16 x i32> %43, %40
  %45 = select <16 x i1> %41, <16 x i32> %44, <16 x i32> splat (i32 2143289344)
  %46 = shufflevector <4 x i32> %37, <4 x i32> poison, <16 x i32> zeroinitializer
  %47 = icmp sgt <16 x i32> %45, %46
  %48 = bitcast <16 x i1> %47 to i16
  %49 = icmp eq i16 %48, 0
  br i1 %49, label %14, label %50

50:
  %51 = zext i16 %48 to i32
  br label %52

52:
  %53 = phi i32 [ %75, %52 ], [ %31, %50 ]
  %54 = phi i32 [ %73, %52 ], [ %32, %50 ]
  %55 = phi i32 [ %71, %52 ], [ %33, %50 ]
  %56 = phi i32 [ %89, %52 ], [ %51, %50 ]
  %57 = phi i32 [ %69, %52 ], [ %36, %50 ]
  %58 = phi <4 x i32> [ %87, %52 ], [ %37, %50 ]
  %59 = tail call i32 @llvm.cttz.i32(i32 %56, i1 true)
  %60 = zext i32 %59 to i64
  %61 = getelementptr float, ptr %38, i64 %60
  %62 = load float, ptr %61, align 4
  %63 = fcmp uno float %62, 0.000000e+00
  %64 = bitcast float %62 to i32
  %65 = icmp slt i32 %64, 0
  %66 = select i1 %65, i32 2147483647, i32 0
  %67 = xor i32 %66, %64
  %68 = select i1 %63, i32 2143289344, i32 %67
  %69 = tail call i32 @llvm.smax.i32(i32 %57, i32 %68)
  %70 = tail call i32 @llvm.smin.i32(i32 %57, i32 %68)
  %71 = tail call i32 @llvm.smax.i32(i32 %55, i32 %70)
  %72 = tail call i32 @llvm.smin.i32(i32 %55, i32 %70)
  %73 = tail call i32 @llvm.smax.i32(i32 %54, i32 %72)
  %74 = tail call i32 @llvm.smin.i32(i32 %54, i32 %72)
  %75 = tail call i32 @llvm.smax.i32(i32 %53, i32 %74)
  %76 = tail call i32 @llvm.smin.i32(i32 %53, i32 %74)
  %77 = extractelement <4 x i32> %58, i64 1
  %78 = tail call i32 @llvm.smin.i32(i32 %77, i32 %76)
  %79 = extractelement <4 x i32> %58, i64 2
  %80 = tail call i32 @llvm.smin.i32(i32 %79, i32 %78)
  %81 = extractelement <4 x i32> %58, i64 3
  %82 = tail call i32 @llvm.smin.i32(i32 %81, i32 %80)
  %83 = insertelement <4 x i32> poison, i32 %82, i64 0
  %84 = insertelement <4 x i32> %83, i32 %76, i64 1
  %85 = insertelement <4 x i32> %84, i32 %78, i64 2
  %86 = insertelement <4 x i32> %85, i32 %80, i64 3
  %87 = tail call <4 x i32> @llvm.smax.v4i32(<4 x i32> %58, <4 x i32> %86)
  %88 = add i32 %56, -1
  %89 = and i32 %88, %56
  %90 = icmp eq i32 %89, 0
  br i1 %90, label %14, label %52

91:
  %92 = phi i32 [ %23, %22 ], [ %142, %121 ]
  %93 = phi i32 [ %24, %22 ], [ %140, %121 ]
  %94 = phi i32 [ %25, %22 ], [ %138, %121 ]
  %95 = phi i32 [ %26, %22 ], [ %136, %121 ]
  %96 = phi <4 x i32> [ %28, %22 ], [ %154, %121 ]
  %97 = icmp slt i32 %95, 0
  %98 = select i1 %97, i32 2147483647, i32 0
  %99 = xor i32 %98, %95
  store i32 %99, ptr %11, align 4
  %100 = icmp slt i32 %94, 0
  %101 = select i1 %100, i32 2147483647, i32 0
  %102 = xor i32 %101, %94
  %103 = getelementptr inbounds i8, ptr %11, i64 4
  store i32 %102, ptr %103, align 4
  %104 = icmp slt i32 %93, 0
  %105 = select i1 %104, i32 2147483647, i32 0
  %106 = xor i32 %105, %93
  %107 = getelementptr inbounds i8, ptr %11, i64 8
  store i32 %106, ptr %107, align 4
  %108 = icmp slt i32 %92, 0
  %109 = select i1 %108, i32 2147483647, i32 0
  %110 = xor i32 %109, %92
  %111 = getelementptr inbounds i8, ptr %11, i64 12
  store i32 %110, ptr %111, align 4
  %112 = icmp slt <4 x i32> %96, zeroinitializer
  %113 = getelementptr inbounds i8, ptr %11, i64 16
  %114 = select <4 x i1> %112, <4 x i32> splat (i32 2147483647), <4 x i32> zeroinitializer
  %115 = xor <4 x i32> %114, %96
  %116 = shufflevector <4 x i32> %115, <4 x i32> poison, <4 x i32> <i32 1, i32 2, i32 3, i32 0>
  store <4 x i32> %116, ptr %113, align 4
  %117 = add i64 %12, -1
  %118 = getelementptr inbounds i32, ptr %11, i64 %1
  %119 = getelementptr inbounds float, ptr %13, i64 %3
  %120 = icmp sgt i64 %12, 1
  br i1 %120, label %10, label %157

121:
  %122 = phi i32 [ %142, %121 ], [ %23, %22 ]
  %123 = phi i32 [ %140, %121 ], [ %24, %22 ]
  %124 = phi i32 [ %138, %121 ], [ %25, %22 ]
  %125 = phi i64 [ %155, %121 ], [ %27, %22 ]
  %126 = phi i32 [ %136, %121 ], [ %26, %22 ]
  %127 = phi <4 x i32> [ %154, %121 ], [ %28, %22 ]
  %128 = getelementptr inbounds float, ptr %13, i64 %125
  %129 = load float, ptr %128, align 4
  %130 = fcmp uno float %129, 0.000000e+00
  %131 = bitcast float %129 to i32
  %132 = icmp slt i32 %131, 0
  %133 = select i1 %132, i32 2147483647, i32 0
  %134 = xor i32 %133, %131
  %135 = select i1 %130, i32 2143289344, i32 %134
  %136 = tail call i32 @llvm.smax.i32(i32 %126, i32 %135)
  %137 = tail call i32 @llvm.smin.i32(i32 %126, i32 %135)
  %138 = tail call i32 @llvm.smax.i32(i32 %124, i32 %137)
  %139 = tail call i32 @llvm.smin.i32(i32 %124, i32 %137)
  %140 = tail call i32 @llvm.smax.i32(i32 %123, i32 %139)
  %141 = tail call i32 @llvm.smin.i32(i32 %123, i32 %139)
  %142 = tail call i32 @llvm.smax.i32(i32 %122, i32 %141)
  %143 = tail call i32 @llvm.smin.i32(i32 %122, i32 %141)
  %144 = extractelement <4 x i32> %127, i64 1
  %145 = tail call i32 @llvm.smin.i32(i32 %144, i32 %143)
  %146 = extractelement <4 x i32> %127, i64 2
  %147 = tail call i32 @llvm.smin.i32(i32 %146, i32 %145)
  %148 = extractelement <4 x i32> %127, i64 3
  %149 = tail call i32 @llvm.smin.i32(i32 %148, i32 %147)
  %150 = insertelement <4 x i32> poison, i32 %149, i64 0
  %151 = insertelement <4 x i32> %150, i32 %143, i64 1
  %152 = insertelement <4 x i32> %151, i32 %145, i64 2
  %153 = insertelement <4 x i32> %152, i32 %147, i64 3
  %154 = tail call <4 x i32> @llvm.smax.v4i32(<4 x i32> %127, <4 x i32> %153)
  %155 = add i64 %125, 1
  %156 = icmp eq i64 %155, %5
  br i1 %156, label %91, label %121

157:
  ret void
}

declare i32 @llvm.cttz.i32(i32, i1)

define void @nki_find(ptr %0, i64 %1, ptr %2, i64 %3, ptr %4, i64 %5, i64 %6, i64 %7, i64 %8) {
  %10 = icmp sgt i64 %6, 0
  br i1 %10, label %11, label %81

11:
  %12 = icmp eq i64 %8, 0
  %13 = select i1 %12, i64 0, i64 7
  br label %14

14:
  %15 = phi ptr [ %0, %11 ], [ %21, %19 ]
  %16 = phi ptr [ %2, %11 ], [ %22, %19 ]
  %17 = phi ptr [ %4, %11 ], [ %23, %19 ]
  %18 = phi i64 [ %6, %11 ], [ %20, %19 ]
  br label %25

19:
  %20 = add i64 %18, -1
  %21 = getelementptr inbounds i32, ptr %15, i64 %1
  %22 = getelementptr inbounds float, ptr %16, i64 %3
  %23 = getelementptr inbounds float, ptr %17, i64 %5
  %24 = icmp sgt i64 %18, 1
  br i1 %24, label %14, label %81

25:
  %26 = phi i64 [ 0, %14 ], [ %63, %59 ]
  %27 = xor i64 %26, %13
  %28 = getelementptr inbounds float, ptr %17, i64 %27
  %29 = load float, ptr %28, align 4
  %30 = icmp eq i64 %26, 0
  br i1 %30, label %31, label %65

31:
  %32 = phi i64 [ 0, %25 ], [ %78, %77 ]
  %33 = insertelement <16 x float> poison, float %29, i64 0
  %34 = shufflevector <16 x float> %33, <16 x float> poison, <16 x i32> zeroinitializer
  br label %35

35:
  %36 = phi i64 [ %32, %31 ], [ %37, %41 ]
  %37 = add i64 %36, 16
  %38 = icmp sgt i64 %37, %7
  br i1 %38, label %39, label %41

39:
  %40 = icmp slt i64 %36, %7
  br i1 %40, label %47, label %59

41:
  %42 = getelementptr inbounds float, ptr %16, i64 %36
  %43 = load <16 x float>, ptr %42, align 4
  %44 = fcmp oeq <16 x float> %43, %34
  %45 = bitcast <16 x i1> %44 to i16
  %46 = icmp eq i16 %45, 0
  br i1 %46, label %35, label %55

47:
  %48 = phi i64 [ %53, %52 ], [ %36, %39 ]
  %49 = getelementptr inbounds float, ptr %16, i64 %48
  %50 = load float, ptr %49, align 4
  %51 = fcmp oeq float %50, %29
  br i1 %51, label %59, label %52

52:
  %53 = add i64 %48, 1
  %54 = icmp slt i64 %53, %7
  br i1 %54, label %47, label %59

55:
  %56 = tail call i16 @llvm.cttz.i16(i16 %45, i1 true)
  %57 = zext i16 %56 to i64
  %58 = add i64 %36, %57
  br label %59

59:
  %60 = phi i64 [ %58, %55 ], [ -1, %39 ], [ -1, %52 ], [ %48, %47 ]
  %61 = trunc i64 %60 to i32
  %62 = getelementptr inbounds i32, ptr %15, i64 %27
  store i32 %61, ptr %62, align 4
  %63 = add i64 %26, 1
  %64 = icmp eq i64 %63, 8
  br i1 %64, label %19, label %25

65:
  %66 = phi i64 [ %79, %77 ], [ 0, %25 ]
  %67 = phi i64 [ %78, %77 ], [ 0, %25 ]
  %68 = xor i64 %66, %13
  %69 = getelementptr inbounds float, ptr %17, i64 %68
  %70 = load float, ptr %69, align 4
  %71 = fcmp oeq float %70, %29
  br i1 %71, label %72, label %77

72:
  %73 = getelementptr inbounds i32, ptr %15, i64 %68
  %74 = load i32, ptr %73, align 4
  %75 = zext i32 %74 to i64
  %76 = add i64 %75, 1
  br label %77

77:
  %78 = phi i64 [ %76, %72 ], [ %67, %65 ]
  %79 = add i64 %66, 1
  %80 = icmp eq i64 %79, %26
  br i1 %80, label %31, label %65

81:
  ret void
}

define void @nki_nonzero(ptr %0, i64 %1, ptr %2, i64 %3, i64 %4, i64 %5) {
  %7 = icmp sgt i64 %4, 0
  br i1 %7, label %8, label %41

8:
  %9 = icmp sgt i64 %5, 0
  br label %10

10:
  %11 = phi ptr [ %0, %8 ], [ %33, %29 ]
  %12 = phi i64 [ %4, %8 ], [ %32, %29 ]
  %13 = phi ptr [ %2, %8 ], [ %34, %29 ]
  br i1 %9, label %17, label %14

14:
  %15 = phi i64 [ 0, %10 ], [ %26, %17 ]
  %16 = icmp slt i64 %15, %5
  br i1 %16, label %36, label %29

17:
  %18 = phi i64 [ %27, %17 ], [ 0, %10 ]
  %19 = phi i64 [ %26, %17 ], [ 0, %10 ]
  %20 = trunc i64 %18 to i32
  %21 = getelementptr inbounds i32, ptr %11, i64 %19
  store i32 %20, ptr %21, align 4
  %22 = getelementptr inbounds float, ptr %13, i64 %18
  %23 = load float, ptr %22, align 4
  %24 = fcmp une float %23, 0.000000e+00
  %25 = zext i1 %24 to i64
  %26 = add i64 %19, %25
  %27 = add i64 %18, 1
  %28 = icmp eq i64 %27, %5
  br i1 %28, label %14, label %17

29:
  %30 = trunc i64 %15 to i32
  %31 = getelementptr inbounds i32, ptr %11, i64 %5
  store i32 %30, ptr %31, align 4
  %32 = add i64 %12, -1
  %33 = getelementptr inbounds i32, ptr %11, i64 %1
  %34 = getelementptr inbounds float, ptr %13, i64 %3
  %35 = icmp sgt i64 %12, 1
  br i1 %35, label %10, label %41

36:
  %37 = phi i64 [ %39, %36 ], [ %15, %14 ]
  %38 = getelementptr inbounds i32, ptr %11, i64 %37
  store i32 -1, ptr %38, align 4
  %39 = add i64 %37, 1
  %40 = icmp eq i64 %39, %5
  br i1 %40, label %29, label %36

41:
  ret void
}

define void @nki_ranked(ptr %0, i64 %1, ptr %2, i64 %3, i64 %4, i64 %5, i64 %6, i64 %7, ptr %8) {
  %10 = alloca [256 x i32], align 16
  %11 = icmp sgt i64 %4, 0
  br i1 %11, label %12, label %118

12:
  %13 = getelementptr inbounds i64, ptr %8, i64 %5
  %14 = icmp sgt i64 %5, 0
  %15 = icmp eq i64 %7, 2
  %16 = sub i64 4, %7
  %17 = icmp slt i64 %16, 4
  %18 = icmp sgt i64 %6, 0
  %19 = sub i64 %5, %6
  %20 = mul i64 %7, %3
  br label %21

21:
  %22 = phi ptr [ %0, %12 ], [ %107, %105 ]
  %23 = phi ptr [ %2, %12 ], [ %108, %105 ]
  %24 = phi i64 [ %4, %12 ], [ %106, %105 ]
  br i1 %14, label %26, label %25

25:
  br i1 %17, label %56, label %52

26:
  %27 = phi i64 [ %50, %38 ], [ 0, %21 ]
  %28 = xor i64 %27, -1
  %29 = add i64 %5, %28
  br i1 %15, label %30, label %35

30:
  %31 = getelementptr inbounds i16, ptr %23, i64 %29
  %32 = load i16, ptr %31, align 2
  %33 = zext i16 %32 to i32
  %34 = shl i32 %33, 16
  br label %38

35:
  %36 = getelementptr inbounds i32, ptr %23, i64 %29
  %37 = load i32, ptr %36, align 4
  br label %38

38:
  %39 = phi i32 [ %34, %30 ], [ %37, %35 ]
  %40 = bitcast i32 %39 to float
  %41 = fcmp uno float %40, 0.000000e+00
  %42 = ashr i32 %39, 31
  %43 = or i32 %42, -2147483648
  %44 = xor i32 %43, %39
  %45 = zext i32 %44 to i64
  %46 = shl i64 %45, 32
  %47 = select i1 %41, i64 -4294967296, i64 %46
  %48 = or i64 %47, %29
  %49 = getelementptr inbounds i64, ptr %8, i64 %27
  store i64 %48, ptr %49, align 8
  %50 = add i64 %27, 1
  %51 = icmp eq i64 %50, %5
  br i1 %51, label %25, label %26

52:
  %53 = phi ptr [ %8, %25 ], [ %58, %102 ]
  br i1 %18, label %54, label %105

54:
  %55 = getelementptr i64, ptr %53, i64 %19
  br label %110

56:
  %57 = phi i64 [ %103, %102 ], [ %16, %25 ]
  %58 = phi ptr [ %59, %102 ], [ %13, %25 ]
  %59 = phi ptr [ %58, %102 ], [ %8, %25 ]
  br label %60

60:
  %61 = phi i64 [ 0, %56 ], [ %63, %60 ]
  %62 = getelementptr inbounds i32, ptr %10, i64 %61
  store <4 x i32> zeroinitializer, ptr %62, align 16
  %63 = add i64 %61, 4
  %64 = icmp eq i64 %63, 256
  br i1 %64, label %65, label %60

65:
  %66 = shl i64 %57, 3
  %67 = add i64 %66, 32
  br i1 %14, label %69, label %68

68:
  br label %81

69:
  %70 = phi i64 [ %78, %69 ], [ 0, %65 ]
  %71 = getelementptr inbounds i64, ptr %59, i64 %70
  %72 = load i64, ptr %71, align 8
  %73 = lshr i64 %72, %67
  %74 = and i64 %73, 255
  %75 = getelementptr inbounds i32, ptr %10, i64 %74
  %76 = load i32, ptr %75, align 4
  %77 = add i32 %76, 1
  store i32 %77, ptr %75, align 4
  %78 = add i64 %70, 1
  %79 = icmp eq i64 %78, %5
  br i1 %79, label %68, label %69

80:
  br i1 %14, label %89, label %102

81:
  %82 = phi i64 [ %87, %81 ], [ 0, %68 ]
  %83 = phi i32 [ %86, %81 ], [ 0, %68 ]
  %84 = getelementptr inbounds i32, ptr %10, i64 %82
  %85 = load i32, ptr %84, align 4
  store i32 %83, ptr %84, align 4
  %86 = add i32 %85, %83
  %87 = add i64 %82, 1
  %88 = icmp eq i64 %87, 256
  br i1 %88, label %80, label %81

89:
  %90 = phi i64 [ %100, %89 ], [ 0, %80 ]
  %91 = getelementptr inbounds i64, ptr %59, i64 %90
  %92 = load i64, ptr %91, align 8
  %93 = lshr i64 %92, %67
  %94 = and i64 %93, 255
  %95 = getelementptr inbounds i32, ptr %10, i64 %94
  %96 = load i32, ptr %95, align 4
  %97 = add i32 %96, 1
  store i32 %97, ptr %95, align 4
  %98 = zext i32 %96 to i64
  %99 = getelementptr inbounds i64, ptr %58, i64 %98
  store i64 %92, ptr %99, align 8
  %100 = add i64 %90, 1
  %101 = icmp eq i64 %100, %5
  br i1 %101, label %102, label %89

102:
  %103 = add i64 %57, 1
  %104 = icmp eq i64 %103, 4
  br i1 %104, label %52, label %56

105:
  %106 = add i64 %24, -1
  %107 = getelementptr inbounds i32, ptr %22, i64 %1
  %108 = getelementptr inbounds i8, ptr %23, i64 %20
  %109 = icmp sgt i64 %24, 1
  br i1 %109, label %21, label %118

110:
  %111 = phi i64 [ 0, %54 ], [ %116, %110 ]
  %112 = getelementptr i64, ptr %55, i64 %111
  %113 = load i64, ptr %112, align 8
  %114 = trunc i64 %113 to i32
  %115 = getelementptr inbounds i32, ptr %22, i64 %111
  store i32 %114, ptr %115, align 4
  %116 = add i64 %111, 1
  %117 = icmp eq i64 %116, %6
  br i1 %117, label %105, label %110

118:
  ret void
}

define void @nki_xorwow(ptr %0, i64 %1, ptr %2, i64 %3, ptr %4, i64 %5, i64 %6, i64 %7, i64 %8) {
  %10 = alloca %union.anon.3, align 4
  %11 = alloca %union.anon.2, align 16
  %12 = icmp sgt i64 %6, 0
  br i1 %12, label %13, label %151

13:
  %14 = icmp eq i64 %8, 4
  %15 = getelementptr inbounds i8, ptr %10, i64 4
  %16 = getelementptr inbounds i8, ptr %10, i64 8
  %17 = getelementptr inbounds i8, ptr %10, i64 12
  %18 = getelementptr inbounds i8, ptr %10, i64 16
  %19 = getelementptr inbounds i8, ptr %10, i64 20
  %20 = icmp sgt i64 %7, 0
  %21 = sdiv i64 %7, 4
  %22 = getelementptr inbounds i8, ptr %11, i64 16
  %23 = getelementptr inbounds i8, ptr %11, i64 32
  %24 = getelementptr inbounds i8, ptr %11, i64 48
  %25 = getelementptr inbounds i8, ptr %11, i64 64
  %26 = getelementptr inbounds i8, ptr %11, i64 80
  %27 = icmp sgt i64 %7, 3
  br label %28

28:
  %29 = phi ptr [ %0, %13 ], [ %147, %145 ]
  %30 = phi ptr [ %2, %13 ], [ %148, %145 ]
  %31 = phi i64 [ %6, %13 ], [ %146, %145 ]
  %32 = phi ptr [ %4, %13 ], [ %149, %145 ]
  br i1 %14, label %33, label %95

33:
  br label %41

34:
  %35 = load <4 x i32>, ptr %11, align 16
  %36 = load <4 x i32>, ptr %22, align 16
  %37 = load <4 x i32>, ptr %23, align 16
  %38 = load <4 x i32>, ptr %24, align 16
  %39 = load <4 x i32>, ptr %25, align 16
  %40 = load <4 x i32>, ptr %26, align 16
  br i1 %27, label %61, label %54

41:
  %42 = phi i64 [ 0, %33 ], [ %52, %41 ]
  %43 = getelementptr inbounds i32, ptr %30, i64 %42
  %44 = load i32, ptr %43, align 4
  %45 = trunc i64 %42 to i8
  %46 = urem i8 %45, 6
  %47 = zext i8 %46 to i64
  %48 = getelementptr inbounds [4 x i32], ptr %11, i64 %47
  %49 = udiv i8 %45, 6
  %50 = zext i8 %49 to i64
  %51 = getelementptr inbounds i32, ptr %48, i64 %50
  store i32 %44, ptr %51, align 4
  %52 = add i64 %42, 1
  %53 = icmp eq i64 %52, 24
  br i1 %53, label %34, label %41

54:
  %55 = phi <4 x i32> [ %35, %34 ], [ %67, %61 ]
  %56 = phi <4 x i32> [ %36, %34 ], [ %66, %61 ]
  %57 = phi <4 x i32> [ %37, %34 ], [ %65, %61 ]
  %58 = phi <4 x i32> [ %38, %34 ], [ %64, %61 ]
  %59 = phi <4 x i32> [ %39, %34 ], [ %75, %61 ]
  %60 = phi <4 x i32> [ %40, %34 ], [ %76, %61 ]
  store <4 x i32> %55, ptr %11, align 16
  store <4 x i32> %56, ptr %22, align 16
  store <4 x i32> %57, ptr %23, align 16
  store <4 x i32> %58, ptr %24, align 16
  store <4 x i32> %59, ptr %25, align 16
  store <4 x i32> %60, ptr %26, align 16
  br label %81

61:
  %62 = phi i64 [ %79, %61 ], [ 0, %34 ]
  %63 = phi <4 x i32> [ %76, %61 ], [ %40, %34 ]
  %64 = phi <4 x i32> [ %75, %61 ], [ %39, %34 ]
  %65 = phi <4 x i32> [ %64, %61 ], [ %38, %34 ]
  %66 = phi <4 x i32> [ %65, %61 ], [ %37, %34 ]
  %67 = phi <4 x i32> [ %66, %61 ], [ %36, %34 ]
  %68 = phi <4 x i32> [ %67, %61 ], [ %35, %34 ]
  %69 = lshr <4 x i32> %68, splat (i32 2)
  %70 = xor <4 x i32> %69, %68
  %71 = shl <4 x i32> %70, splat (i32 1)
  %72 = shl <4 x i32> %64, splat (i32 4)
  %73 = xor <4 x i32> %72, %71
  %74 = xor <4 x i32> %73, %64
  %75 = xor <4 x i32> %74, %70
  %76 = add <4 x i32> %63, splat (i32 362437)
  %77 = add <4 x i32> %75, %76
  %78 = getelementptr inbounds <4 x i32>, ptr %29, i64 %62
  store <4 x i32> %77, ptr %78, align 4
  %79 = add i64 %62, 1
  %80 = icmp eq i64 %79, %21
  br i1 %80, label %54, label %61

81:
  %82 = phi i64 [ 0, %54 ], [ %92, %81 ]
  %83 = trunc i64 %82 to i8
  %84 = urem i8 %83, 6
  %85 = zext i8 %84 to i64
  %86 = getelementptr inbounds [4 x i32], ptr %11, i64 %85
  %87 = udiv i8 %83, 6
  %88 = zext i8 %87 to i64
  %89 = getelementptr inbounds i32, ptr %86, i64 %88
  %90 = load i32, ptr %89, align 4
  %91 = getelementptr inbounds i32, ptr %32, i64 %82
  store i32 %90, ptr %91, align 4
  %92 = add i64 %82, 1
  %93 = icmp eq i64 %92, 24
  br i1 %93, label %94, label %81

94:
  br label %145

95:
  br label %103

96:
  %97 = load i32, ptr %10, align 4
  %98 = load i32, ptr %15, align 4
  %99 = load i32, ptr %16, align 4
  %100 = load i32, ptr %17, align 4
  %101 = load i32, ptr %18, align 4
  %102 = load i32, ptr %19, align 4
  br i1 %20, label %117, label %110

103:
  %104 = phi i64 [ 0, %95 ], [ %108, %103 ]
  %105 = getelementptr inbounds i32, ptr %30, i64 %104
  %106 = load i32, ptr %105, align 4
  %107 = getelementptr inbounds [1 x i32], ptr %10, i64 %104
  store i32 %106, ptr %107, align 4
  %108 = add i64 %104, 1
  %109 = icmp eq i64 %108, 6
  br i1 %109, label %96, label %103

110:
  %111 = phi i32 [ %97, %96 ], [ %123, %117 ]
  %112 = phi i32 [ %98, %96 ], [ %122, %117 ]
  %113 = phi i32 [ %99, %96 ], [ %121, %117 ]
  %114 = phi i32 [ %100, %96 ], [ %120, %117 ]
  %115 = phi i32 [ %101, %96 ], [ %131, %117 ]
  %116 = phi i32 [ %102, %96 ], [ %132, %117 ]
  store i32 %111, ptr %10, align 4
  store i32 %112, ptr %15, align 4
  store i32 %113, ptr %16, align 4
  store i32 %114, ptr %17, align 4
  store i32 %115, ptr %18, align 4
  store i32 %116, ptr %19, align 4
  br label %137

117:
  %118 = phi i64 [ %135, %117 ], [ 0, %96 ]
  %119 = phi i32 [ %132, %117 ], [ %102, %96 ]
  %120 = phi i32 [ %131, %117 ], [ %101, %96 ]
  %121 = phi i32 [ %120, %117 ], [ %100, %96 ]
  %122 = phi i32 [ %121, %117 ], [ %99, %96 ]
  %123 = phi i32 [ %122, %117 ], [ %98, %96 ]
  %124 = phi i32 [ %123, %117 ], [ %97, %96 ]
  %125 = lshr i32 %124, 2
  %126 = xor i32 %125, %124
  %127 = shl i32 %126, 1
  %128 = shl i32 %120, 4
  %129 = xor i32 %128, %127
  %130 = xor i32 %129, %120
  %131 = xor i32 %130, %126
  %132 = add i32 %119, 362437
  %133 = add i32 %131, %132
  %134 = getelementptr inbounds i32, ptr %29, i64 %118
  store i32 %133, ptr %134, align 4
  %135 = add i64 %118, 1
  %136 = icmp eq i64 %135, %7
  br i1 %136, label %110, label %117

137:
  %138 = phi i64 [ 0, %110 ], [ %142, %137 ]
  %139 = getelementptr inbounds [1 x i32], ptr %10, i64 %138
  %140 = load i32, ptr %139, align 4
  %141 = getelementptr inbounds i32, ptr %32, i64 %138
  store i32 %140, ptr %141, align 4
  %142 = add i64 %138, 1
  %143 = icmp eq i64 %142, 6
  br i1 %143, label %144, label %137

144:
  br label %145

145:
  %146 = add i64 %31, -1
  %147 = getelementptr inbounds i32, ptr %29, i64 %1
  %148 = getelementptr inbounds i32, ptr %30, i64 %3
  %149 = getelementptr inbounds i32, ptr %32, i64 %5
  %150 = icmp sgt i64 %31, 1
  br i1 %150, label %28, label %151

151:
  ret void
}

declare i32 @llvm.smax.i32(i32, i32)

declare i32 @llvm.smin.i32(i32, i32)

declare i16 @llvm.cttz.i16(i16, i1)

declare <4 x i32> @llvm.smax.v4i32(<4 x i32>, <4 x i32>)
