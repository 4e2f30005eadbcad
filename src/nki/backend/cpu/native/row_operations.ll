; Made by tools/native_runtime.py with clang version 22.1.8. SHA-256 of the C files:
; 66d9c7e028756678ecb92b5f87d7117fb78b6eeec91644d20ef0394b27cb40d1

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
  br i1 %7, label %8, label %123

8:
  %9 = icmp sgt i64 %5, 0
  %10 = and i64 %5, 7
  %11 = icmp ult i64 %5, 8
  %12 = and i64 %5, 9223372036854775800
  %13 = icmp eq i64 %10, 0
  %14 = icmp ne i64 %10, 0
  br label %15

15:
  %16 = phi ptr [ %0, %8 ], [ %115, %111 ]
  %17 = phi i64 [ %4, %8 ], [ %114, %111 ]
  %18 = phi ptr [ %2, %8 ], [ %116, %111 ]
  br i1 %9, label %19, label %38

19:
  br i1 %11, label %21, label %41

20:
  br i1 %13, label %38, label %21

21:
  %22 = phi i64 [ 0, %19 ], [ %108, %20 ]
  %23 = phi i64 [ 0, %19 ], [ %107, %20 ]
  tail call void @llvm.assume(i1 %14)
  br label %24

24:
  %25 = phi i64 [ %35, %24 ], [ %22, %21 ]
  %26 = phi i64 [ %34, %24 ], [ %23, %21 ]
  %27 = phi i64 [ %36, %24 ], [ 0, %21 ]
  %28 = trunc i64 %25 to i32
  %29 = getelementptr inbounds i32, ptr %16, i64 %26
  store i32 %28, ptr %29, align 4
  %30 = getelementptr inbounds float, ptr %18, i64 %25
  %31 = load float, ptr %30, align 4
  %32 = fcmp une float %31, 0.000000e+00
  %33 = zext i1 %32 to i64
  %34 = add i64 %26, %33
  %35 = add i64 %25, 1
  %36 = add i64 %27, 1
  %37 = icmp eq i64 %36, %10
  br i1 %37, label %38, label %24

38:
  %39 = phi i64 [ 0, %15 ], [ %107, %20 ], [ %34, %24 ]
  %40 = icmp slt i64 %39, %5
  br i1 %40, label %118, label %111

41:
  %42 = phi i64 [ %108, %41 ], [ 0, %19 ]
  %43 = phi i64 [ %107, %41 ], [ 0, %19 ]
  %44 = phi i64 [ %109, %41 ], [ 0, %19 ]
  %45 = trunc i64 %42 to i32
  %46 = getelementptr inbounds i32, ptr %16, i64 %43
  store i32 %45, ptr %46, align 4
  %47 = getelementptr inbounds float, ptr %18, i64 %42
  %48 = load float, ptr %47, align 4
  %49 = fcmp une float %48, 0.000000e+00
  %50 = zext i1 %49 to i64
  %51 = add i64 %43, %50
  %52 = or i64 %42, 1
  %53 = trunc i64 %52 to i32
  %54 = getelementptr inbounds i32, ptr %16, i64 %51
  store i32 %53, ptr %54, align 4
  %55 = getelementptr inbounds float, ptr %18, i64 %52
  %56 = load float, ptr %55, align 4
  %57 = fcmp une float %56, 0.000000e+00
  %58 = zext i1 %57 to i64
  %59 = add i64 %51, %58
  %60 = or i64 %42, 2
  %61 = trunc i64 %60 to i32
  %62 = getelementptr inbounds i32, ptr %16, i64 %59
  store i32 %61, ptr %62, align 4
  %63 = getelementptr inbounds float, ptr %18, i64 %60
  %64 = load float, ptr %63, align 4
  %65 = fcmp une float %64, 0.000000e+00
  %66 = zext i1 %65 to i64
  %67 = add i64 %59, %66
  %68 = or i64 %42, 3
  %69 = trunc i64 %68 to i32
  %70 = getelementptr inbounds i32, ptr %16, i64 %67
  store i32 %69, ptr %70, align 4
  %71 = getelementptr inbounds float, ptr %18, i64 %68
  %72 = load float, ptr %71, align 4
  %73 = fcmp une float %72, 0.000000e+00
  %74 = zext i1 %73 to i64
  %75 = add i64 %67, %74
  %76 = or i64 %42, 4
  %77 = trunc i64 %76 to i32
  %78 = getelementptr inbounds i32, ptr %16, i64 %75
  store i32 %77, ptr %78, align 4
  %79 = getelementptr inbounds float, ptr %18, i64 %76
  %80 = load float, ptr %79, align 4
  %81 = fcmp une float %80, 0.000000e+00
  %82 = zext i1 %81 to i64
  %83 = add i64 %75, %82
  %84 = or i64 %42, 5
  %85 = trunc i64 %84 to i32
  %86 = getelementptr inbounds i32, ptr %16, i64 %83
  store i32 %85, ptr %86, align 4
  %87 = getelementptr inbounds float, ptr %18, i64 %84
  %88 = load float, ptr %87, align 4
  %89 = fcmp une float %88, 0.000000e+00
  %90 = zext i1 %89 to i64
  %91 = add i64 %83, %90
  %92 = or i64 %42, 6
  %93 = trunc i64 %92 to i32
  %94 = getelementptr inbounds i32, ptr %16, i64 %91
  store i32 %93, ptr %94, align 4
  %95 = getelementptr inbounds float, ptr %18, i64 %92
  %96 = load float, ptr %95, align 4
  %97 = fcmp une float %96, 0.000000e+00
  %98 = zext i1 %97 to i64
  %99 = add i64 %91, %98
  %100 = or i64 %42, 7
  %101 = trunc i64 %100 to i32
  %102 = getelementptr inbounds i32, ptr %16, i64 %99
  store i32 %101, ptr %102, align 4
  %103 = getelementptr inbounds float, ptr %18, i64 %100
  %104 = load float, ptr %103, align 4
  %105 = fcmp une float %104, 0.000000e+00
  %106 = zext i1 %105 to i64
  %107 = add i64 %99, %106
  %108 = add i64 %42, 8
  %109 = add i64 %44, 8
  %110 = icmp eq i64 %109, %12
  br i1 %110, label %20, label %41

111:
  %112 = trunc i64 %39 to i32
  %113 = getelementptr inbounds i32, ptr %16, i64 %5
  store i32 %112, ptr %113, align 4
  %114 = add i64 %17, -1
  %115 = getelementptr inbounds i32, ptr %16, i64 %1
  %116 = getelementptr inbounds float, ptr %18, i64 %3
  %117 = icmp sgt i64 %17, 1
  br i1 %117, label %15, label %123

118:
  %119 = phi i64 [ %121, %118 ], [ %39, %38 ]
  %120 = getelementptr inbounds i32, ptr %16, i64 %119
  store i32 -1, ptr %120, align 4
  %121 = add i64 %119, 1
  %122 = icmp eq i64 %121, %5
  br i1 %122, label %111, label %118

123:
  ret void
}

define void @nki_ranked(ptr %0, i64 %1, ptr %2, i64 %3, i64 %4, i64 %5, i64 %6, i64 %7, ptr %8) {
  %10 = alloca [256 x i32], align 16
  %11 = icmp sgt i64 %4, 0
  br i1 %11, label %12, label %222

12:
  %13 = getelementptr inbounds i64, ptr %8, i64 %5
  %14 = icmp sgt i64 %5, 0
  %15 = icmp eq i64 %7, 2
  %16 = sub i64 4, %7
  %17 = icmp slt i64 %16, 4
  %18 = icmp sgt i64 %6, 0
  %19 = sub i64 %5, %6
  %20 = mul i64 %7, %3
  %21 = and i64 %5, 3
  %22 = icmp ult i64 %5, 4
  %23 = and i64 %5, 9223372036854775804
  %24 = icmp eq i64 %21, 0
  %25 = icmp ne i64 %21, 0
  %26 = and i64 %5, 3
  %27 = icmp ult i64 %5, 4
  %28 = and i64 %5, 9223372036854775804
  %29 = icmp eq i64 %26, 0
  %30 = icmp ne i64 %26, 0
  br label %31

31:
  %32 = phi ptr [ %0, %12 ], [ %211, %209 ]
  %33 = phi ptr [ %2, %12 ], [ %212, %209 ]
  %34 = phi i64 [ %4, %12 ], [ %210, %209 ]
  br i1 %14, label %36, label %35

35:
  br i1 %17, label %66, label %62

36:
  %37 = phi i64 [ %60, %48 ], [ 0, %31 ]
  %38 = xor i64 %37, -1
  %39 = add i64 %5, %38
  br i1 %15, label %40, label %45

40:
  %41 = getelementptr inbounds i16, ptr %33, i64 %39
  %42 = load i16, ptr %41, align 2
  %43 = zext i16 %42 to i32
  %44 = shl i32 %43, 16
  br label %48

45:
  %46 = getelementptr inbounds i32, ptr %33, i64 %39
  %47 = load i32, ptr %46, align 4
  br label %48

48:
  %49 = phi i32 [ %44, %40 ], [ %47, %45 ]
  %50 = bitcast i32 %49 to float
  %51 = fcmp uno float %50, 0.000000e+00
  %52 = ashr i32 %49, 31
  %53 = or i32 %52, -2147483648
  %54 = xor i32 %53, %49
  %55 = zext i32 %54 to i64
  %56 = shl i64 %55, 32
  %57 = select i1 %51, i64 -4294967296, i64 %56
  %58 = or i64 %57, %39
  %59 = getelementptr inbounds i64, ptr %8, i64 %37
  store i64 %58, ptr %59, align 8
  %60 = add i64 %37, 1
  %61 = icmp eq i64 %60, %5
  br i1 %61, label %35, label %36

62:
  %63 = phi ptr [ %8, %35 ], [ %68, %206 ]
  br i1 %18, label %64, label %209

64:
  %65 = getelementptr i64, ptr %63, i64 %19
  br label %214

66:
  %67 = phi i64 [ %207, %206 ], [ %16, %35 ]
  %68 = phi ptr [ %69, %206 ], [ %13, %35 ]
  %69 = phi ptr [ %68, %206 ], [ %8, %35 ]
  br label %70

70:
  %71 = phi i64 [ 0, %66 ], [ %73, %70 ]
  %72 = getelementptr inbounds i32, ptr %10, i64 %71
  store <4 x i32> zeroinitializer, ptr %72, align 16
  %73 = add i64 %71, 4
  %74 = icmp eq i64 %73, 256
  br i1 %74, label %75, label %70

75:
  %76 = shl i64 %67, 3
  %77 = add i64 %76, 32
  br i1 %14, label %78, label %95

78:
  br i1 %22, label %80, label %96

79:
  br i1 %24, label %95, label %80

80:
  %81 = phi i64 [ 0, %78 ], [ %130, %79 ]
  tail call void @llvm.assume(i1 %25)
  br label %82

82:
  %83 = phi i64 [ %92, %82 ], [ %81, %80 ]
  %84 = phi i64 [ %93, %82 ], [ 0, %80 ]
  %85 = getelementptr inbounds i64, ptr %69, i64 %83
  %86 = load i64, ptr %85, align 8
  %87 = lshr i64 %86, %77
  %88 = and i64 %87, 255
  %89 = getelementptr inbounds i32, ptr %10, i64 %88
  %90 = load i32, ptr %89, align 4
  %91 = add i32 %90, 1
  store i32 %91, ptr %89, align 4
  %92 = add i64 %83, 1
  %93 = add i64 %84, 1
  %94 = icmp eq i64 %93, %21
  br i1 %94, label %95, label %82

95:
  br label %135

96:
  %97 = phi i64 [ %130, %96 ], [ 0, %78 ]
  %98 = phi i64 [ %131, %96 ], [ 0, %78 ]
  %99 = getelementptr inbounds i64, ptr %69, i64 %97
  %100 = load i64, ptr %99, align 8
  %101 = lshr i64 %100, %77
  %102 = and i64 %101, 255
  %103 = getelementptr inbounds i32, ptr %10, i64 %102
  %104 = load i32, ptr %103, align 4
  %105 = add i32 %104, 1
  store i32 %105, ptr %103, align 4
  %106 = getelementptr inbounds i64, ptr %69, i64 %97
  %107 = getelementptr inbounds i8, ptr %106, i64 8
  %108 = load i64, ptr %107, align 8
  %109 = lshr i64 %108, %77
  %110 = and i64 %109, 255
  %111 = getelementptr inbounds i32, ptr %10, i64 %110
  %112 = load i32, ptr %111, align 4
  %113 = add i32 %112, 1
  store i32 %113, ptr %111, align 4
  %114 = getelementptr inbounds i64, ptr %69, i64 %97
  %115 = getelementptr inbounds i8, ptr %114, i64 16
  %116 = load i64, ptr %115, align 8
  %117 = lshr i64 %116, %77
  %118 = and i64 %117, 255
  %119 = getelementptr inbounds i32, ptr %10, i64 %118
  %120 = load i32, ptr %119, align 4
  %121 = add i32 %120, 1
  store i32 %121, ptr %119, align 4
  %122 = getelementptr inbounds i64, ptr %69, i64 %97
  %123 = getelementptr inbounds i8, ptr %122, i64 24
  %124 = load i64, ptr %123, align 8
  %125 = lshr i64 %124, %77
  %126 = and i64 %125, 255
  %127 = getelementptr inbounds i32, ptr %10, i64 %126
  %128 = load i32, ptr %127, align 4
  %129 = add i32 %128, 1
  store i32 %129, ptr %127, align 4
  %130 = add i64 %97, 4
  %131 = add i64 %98, 4
  %132 = icmp eq i64 %131, %23
  br i1 %132, label %79, label %96

133:
  br i1 %14, label %134, label %206

134:
  br i1 %27, label %189, label %143

135:
  %136 = phi i64 [ %141, %135 ], [ 0, %95 ]
  %137 = phi i32 [ %140, %135 ], [ 0, %95 ]
  %138 = getelementptr inbounds i32, ptr %10, i64 %136
  %139 = load i32, ptr %138, align 4
  store i32 %137, ptr %138, align 4
  %140 = add i32 %139, %137
  %141 = add i64 %136, 1
  %142 = icmp eq i64 %141, 256
  br i1 %142, label %133, label %135

143:
  %144 = phi i64 [ %185, %143 ], [ 0, %134 ]
  %145 = phi i64 [ %186, %143 ], [ 0, %134 ]
  %146 = getelementptr inbounds i64, ptr %69, i64 %144
  %147 = load i64, ptr %146, align 8
  %148 = lshr i64 %147, %77
  %149 = and i64 %148, 255
  %150 = getelementptr inbounds i32, ptr %10, i64 %149
  %151 = load i32, ptr %150, align 4
  %152 = add i32 %151, 1
  store i32 %152, ptr %150, align 4
  %153 = zext i32 %151 to i64
  %154 = getelementptr inbounds i64, ptr %68, i64 %153
  store i64 %147, ptr %154, align 8
  %155 = getelementptr inbounds i64, ptr %69, i64 %144
  %156 = getelementptr inbounds i8, ptr %155, i64 8
  %157 = load i64, ptr %156, align 8
  %158 = lshr i64 %157, %77
  %159 = and i64 %158, 255
  %160 = getelementptr inbounds i32, ptr %10, i64 %159
  %161 = load i32, ptr %160, align 4
  %162 = add i32 %161, 1
  store i32 %162, ptr %160, align 4
  %163 = zext i32 %161 to i64
  %164 = getelementptr inbounds i64, ptr %68, i64 %163
  store i64 %157, ptr %164, align 8
  %165 = getelementptr inbounds i64, ptr %69, i64 %144
  %166 = getelementptr inbounds i8, ptr %165, i64 16
  %167 = load i64, ptr %166, align 8
  %168 = lshr i64 %167, %77
  %169 = and i64 %168, 255
  %170 = getelementptr inbounds i32, ptr %10, i64 %169
  %171 = load i32, ptr %170, align 4
  %172 = add i32 %171, 1
  store i32 %172, ptr %170, align 4
  %173 = zext i32 %171 to i64
  %174 = getelementptr inbounds i64, ptr %68, i64 %173
  store i64 %167, ptr %174, align 8
  %175 = getelementptr inbounds i64, ptr %69, i64 %144
  %176 = getelementptr inbounds i8, ptr %175, i64 24
  %177 = load i64, ptr %176, align 8
  %178 = lshr i64 %177, %77
  %179 = and i64 %178, 255
  %180 = getelementptr inbounds i32, ptr %10, i64 %179
  %181 = load i32, ptr %180, align 4
  %182 = add i32 %181, 1
  store i32 %182, ptr %180, align 4
  %183 = zext i32 %181 to i64
  %184 = getelementptr inbounds i64, ptr %68, i64 %183
  store i64 %177, ptr %184, align 8
  %185 = add i64 %144, 4
  %186 = add i64 %145, 4
  %187 = icmp eq i64 %186, %28
  br i1 %187, label %188, label %143

188:
  br i1 %29, label %206, label %189

189:
  %190 = phi i64 [ 0, %134 ], [ %185, %188 ]
  tail call void @llvm.assume(i1 %30)
  br label %191

191:
  %192 = phi i64 [ %203, %191 ], [ %190, %189 ]
  %193 = phi i64 [ %204, %191 ], [ 0, %189 ]
  %194 = getelementptr inbounds i64, ptr %69, i64 %192
  %195 = load i64, ptr %194, align 8
  %196 = lshr i64 %195, %77
  %197 = and i64 %196, 255
  %198 = getelementptr inbounds i32, ptr %10, i64 %197
  %199 = load i32, ptr %198, align 4
  %200 = add i32 %199, 1
  store i32 %200, ptr %198, align 4
  %201 = zext i32 %199 to i64
  %202 = getelementptr inbounds i64, ptr %68, i64 %201
  store i64 %195, ptr %202, align 8
  %203 = add i64 %192, 1
  %204 = add i64 %193, 1
  %205 = icmp eq i64 %204, %26
  br i1 %205, label %206, label %191

206:
  %207 = add i64 %67, 1
  %208 = icmp eq i64 %207, 4
  br i1 %208, label %62, label %66

209:
  %210 = add i64 %34, -1
  %211 = getelementptr inbounds i32, ptr %32, i64 %1
  %212 = getelementptr inbounds i8, ptr %33, i64 %20
  %213 = icmp sgt i64 %34, 1
  br i1 %213, label %31, label %222

214:
  %215 = phi i64 [ 0, %64 ], [ %220, %214 ]
  %216 = getelementptr i64, ptr %65, i64 %215
  %217 = load i64, ptr %216, align 8
  %218 = trunc i64 %217 to i32
  %219 = getelementptr inbounds i32, ptr %32, i64 %215
  store i32 %218, ptr %219, align 4
  %220 = add i64 %215, 1
  %221 = icmp eq i64 %220, %6
  br i1 %221, label %209, label %214

222:
  ret void
}

define void @nki_xorwow(ptr %0, i64 %1, ptr %2, i64 %3, ptr %4, i64 %5, i64 %6, i64 %7, i64 %8) {
  %10 = alloca %union.anon.3, align 4
  %11 = alloca %union.anon.2, align 16
  %12 = icmp sgt i64 %6, 0
  br i1 %12, label %13, label %321

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
  %28 = add i64 %7, -1
  %29 = add i64 %21, -1
  %30 = urem i64 %28, 5
  %31 = add i64 %30, 1
  %32 = icmp ne i64 %31, 5
  %33 = select i1 %32, i64 %31, i64 0
  %34 = icmp ult i64 %7, 5
  %35 = sub i64 %7, %33
  %36 = urem i64 %29, 5
  %37 = add i64 %36, 1
  %38 = icmp ne i64 %37, 5
  %39 = select i1 %38, i64 %37, i64 0
  %40 = icmp ult i64 %29, 4
  %41 = sub i64 %21, %39
  br label %42

42:
  %43 = phi ptr [ %0, %13 ], [ %317, %315 ]
  %44 = phi ptr [ %2, %13 ], [ %318, %315 ]
  %45 = phi i64 [ %6, %13 ], [ %316, %315 ]
  %46 = phi ptr [ %4, %13 ], [ %319, %315 ]
  br i1 %14, label %47, label %187

47:
  br label %56

48:
  %49 = load <4 x i32>, ptr %11, align 16
  %50 = load <4 x i32>, ptr %22, align 16
  %51 = load <4 x i32>, ptr %23, align 16
  %52 = load <4 x i32>, ptr %24, align 16
  %53 = load <4 x i32>, ptr %25, align 16
  %54 = load <4 x i32>, ptr %26, align 16
  br i1 %27, label %55, label %100

55:
  br i1 %40, label %70, label %107

56:
  %57 = phi i64 [ 0, %47 ], [ %67, %56 ]
  %58 = getelementptr inbounds i32, ptr %44, i64 %57
  %59 = load i32, ptr %58, align 4
  %60 = trunc i64 %57 to i8
  %61 = urem i8 %60, 6
  %62 = zext i8 %61 to i64
  %63 = getelementptr inbounds [4 x i32], ptr %11, i64 %62
  %64 = udiv i8 %60, 6
  %65 = zext i8 %64 to i64
  %66 = getelementptr inbounds i32, ptr %63, i64 %65
  store i32 %59, ptr %66, align 4
  %67 = add i64 %57, 1
  %68 = icmp eq i64 %67, 24
  br i1 %68, label %48, label %56

69:
  br i1 %38, label %70, label %100

70:
  %71 = phi i64 [ 0, %55 ], [ %170, %69 ]
  %72 = phi <4 x i32> [ %54, %55 ], [ %166, %69 ]
  %73 = phi <4 x i32> [ %53, %55 ], [ %165, %69 ]
  %74 = phi <4 x i32> [ %52, %55 ], [ %154, %69 ]
  %75 = phi <4 x i32> [ %51, %55 ], [ %143, %69 ]
  %76 = phi <4 x i32> [ %50, %55 ], [ %132, %69 ]
  %77 = phi <4 x i32> [ %49, %55 ], [ %122, %69 ]
  tail call void @llvm.assume(i1 %38)
  br label %78

78:
  %79 = phi i64 [ %97, %78 ], [ %71, %70 ]
  %80 = phi <4 x i32> [ %94, %78 ], [ %72, %70 ]
  %81 = phi <4 x i32> [ %93, %78 ], [ %73, %70 ]
  %82 = phi <4 x i32> [ %81, %78 ], [ %74, %70 ]
  %83 = phi <4 x i32> [ %82, %78 ], [ %75, %70 ]
  %84 = phi <4 x i32> [ %83, %78 ], [ %76, %70 ]
  %85 = phi <4 x i32> [ %84, %78 ], [ %77, %70 ]
  %86 = phi i64 [ %98, %78 ], [ 0, %70 ]
  %87 = lshr <4 x i32> %85, splat (i32 2)
  %88 = xor <4 x i32> %87, %85
  %89 = shl <4 x i32> %88, splat (i32 1)
  %90 = shl <4 x i32> %81, splat (i32 4)
  %91 = xor <4 x i32> %90, %89
  %92 = xor <4 x i32> %91, %81
  %93 = xor <4 x i32> %92, %88
  %94 = add <4 x i32> %80, splat (i32 362437)
  %95 = add <4 x i32> %93, %94
  %96 = getelementptr inbounds <4 x i32>, ptr %43, i64 %79
  store <4 x i32> %95, ptr %96, align 4
  %97 = add i64 %79, 1
  %98 = add i64 %86, 1
  %99 = icmp eq i64 %98, %39
  br i1 %99, label %100, label %78

100:
  %101 = phi <4 x i32> [ %49, %48 ], [ %122, %69 ], [ %84, %78 ]
  %102 = phi <4 x i32> [ %50, %48 ], [ %132, %69 ], [ %83, %78 ]
  %103 = phi <4 x i32> [ %51, %48 ], [ %143, %69 ], [ %82, %78 ]
  %104 = phi <4 x i32> [ %52, %48 ], [ %154, %69 ], [ %81, %78 ]
  %105 = phi <4 x i32> [ %53, %48 ], [ %165, %69 ], [ %93, %78 ]
  %106 = phi <4 x i32> [ %54, %48 ], [ %166, %69 ], [ %94, %78 ]
  store <4 x i32> %101, ptr %11, align 16
  store <4 x i32> %102, ptr %22, align 16
  store <4 x i32> %103, ptr %23, align 16
  store <4 x i32> %104, ptr %24, align 16
  store <4 x i32> %105, ptr %25, align 16
  store <4 x i32> %106, ptr %26, align 16
  br label %173

107:
  %108 = phi i64 [ %170, %107 ], [ 0, %55 ]
  %109 = phi <4 x i32> [ %166, %107 ], [ %54, %55 ]
  %110 = phi <4 x i32> [ %165, %107 ], [ %53, %55 ]
  %111 = phi <4 x i32> [ %154, %107 ], [ %52, %55 ]
  %112 = phi <4 x i32> [ %143, %107 ], [ %51, %55 ]
  %113 = phi <4 x i32> [ %132, %107 ], [ %50, %55 ]
  %114 = phi <4 x i32> [ %122, %107 ], [ %49, %55 ]
  %115 = phi i64 [ %171, %107 ], [ 0, %55 ]
  %116 = lshr <4 x i32> %114, splat (i32 2)
  %117 = xor <4 x i32> %116, %114
  %118 = shl <4 x i32> %117, splat (i32 1)
  %119 = shl <4 x i32> %110, splat (i32 4)
  %120 = xor <4 x i32> %119, %118
  %121 = xor <4 x i32> %120, %110
  %122 = xor <4 x i32> %121, %117
  %123 = add <4 x i32> %109, splat (i32 362437)
  %124 = add <4 x i32> %122, %123
  %125 = getelementptr inbounds <4 x i32>, ptr %43, i64 %108
  store <4 x i32> %124, ptr %125, align 4
  %126 = lshr <4 x i32> %113, splat (i32 2)
  %127 = xor <4 x i32> %126, %113
  %128 = shl <4 x i32> %127, splat (i32 1)
  %129 = shl <4 x i32> %122, splat (i32 4)
  %130 = xor <4 x i32> %129, %128
  %131 = xor <4 x i32> %130, %122
  %132 = xor <4 x i32> %131, %127
  %133 = add <4 x i32> %109, splat (i32 724874)
  %134 = add <4 x i32> %132, %133
  %135 = getelementptr inbounds <4 x i32>, ptr %43, i64 %108
  %136 = getelementptr inbounds i8, ptr %135, i64 16
  store <4 x i32> %134, ptr %136, align 4
  %137 = lshr <4 x i32> %112, splat (i32 2)
  %138 = xor <4 x i32> %137, %112
  %139 = shl <4 x i32> %138, splat (i32 1)
  %140 = shl <4 x i32> %132, splat (i32 4)
  %141 = xor <4 x i32> %140, %139
  %142 = xor <4 x i32> %141, %132
  %143 = xor <4 x i32> %142, %138
  %144 = add <4 x i32> %109, splat (i32 1087311)
  %145 = add <4 x i32> %143, %144
  %146 = getelementptr inbounds <4 x i32>, ptr %43, i64 %108
  %147 = getelementptr inbounds i8, ptr %146, i64 32
  store <4 x i32> %145, ptr %147, align 4
  %148 = lshr <4 x i32> %111, splat (i32 2)
  %149 = xor <4 x i32> %148, %111
  %150 = shl <4 x i32> %149, splat (i32 1)
  %151 = shl <4 x i32> %143, splat (i32 4)
  %152 = xor <4 x i32> %151, %150
  %153 = xor <4 x i32> %152, %143
  %154 = xor <4 x i32> %153, %149
  %155 = add <4 x i32> %109, splat (i32 1449748)
  %156 = add <4 x i32> %154, %155
  %157 = getelementptr inbounds <4 x i32>, ptr %43, i64 %108
  %158 = getelementptr inbounds i8, ptr %157, i64 48
  store <4 x i32> %156, ptr %158, align 4
  %159 = lshr <4 x i32> %110, splat (i32 2)
  %160 = xor <4 x i32> %159, %110
  %161 = shl <4 x i32> %160, splat (i32 1)
  %162 = shl <4 x i32> %154, splat (i32 4)
  %163 = xor <4 x i32> %162, %161
  %164 = xor <4 x i32> %163, %154
  %165 = xor <4 x i32> %164, %160
  %166 = add <4 x i32> %109, splat (i32 1812185)
  %167 = add <4 x i32> %165, %166
  %168 = getelementptr inbounds <4 x i32>, ptr %43, i64 %108
  %169 = getelementptr inbounds i8, ptr %168, i64 64
  store <4 x i32> %167, ptr %169, align 4
  %170 = add i64 %108, 5
  %171 = add i64 %115, 5
  %172 = icmp eq i64 %171, %41
  br i1 %172, label %69, label %107

173:
  %174 = phi i64 [ 0, %100 ], [ %184, %173 ]
  %175 = trunc i64 %174 to i8
  %176 = urem i8 %175, 6
  %177 = zext i8 %176 to i64
  %178 = getelementptr inbounds [4 x i32], ptr %11, i64 %177
  %179 = udiv i8 %175, 6
  %180 = zext i8 %179 to i64
  %181 = getelementptr inbounds i32, ptr %178, i64 %180
  %182 = load i32, ptr %181, align 4
  %183 = getelementptr inbounds i32, ptr %46, i64 %174
  store i32 %182, ptr %183, align 4
  %184 = add i64 %174, 1
  %185 = icmp eq i64 %184, 24
  br i1 %185, label %186, label %173

186:
  br label %315

187:
  br label %196

188:
  %189 = load i32, ptr %10, align 4
  %190 = load i32, ptr %15, align 4
  %191 = load i32, ptr %16, align 4
  %192 = load i32, ptr %17, align 4
  %193 = load i32, ptr %18, align 4
  %194 = load i32, ptr %19, align 4
  br i1 %20, label %195, label %234

195:
  br i1 %34, label %204, label %241

196:
  %197 = phi i64 [ 0, %187 ], [ %201, %196 ]
  %198 = getelementptr inbounds i32, ptr %44, i64 %197
  %199 = load i32, ptr %198, align 4
  %200 = getelementptr inbounds [1 x i32], ptr %10, i64 %197
  store i32 %199, ptr %200, align 4
  %201 = add i64 %197, 1
  %202 = icmp eq i64 %201, 6
  br i1 %202, label %188, label %196

203:
  br i1 %32, label %204, label %234

204:
  %205 = phi i64 [ 0, %195 ], [ %304, %203 ]
  %206 = phi i32 [ %194, %195 ], [ %300, %203 ]
  %207 = phi i32 [ %193, %195 ], [ %299, %203 ]
  %208 = phi i32 [ %192, %195 ], [ %288, %203 ]
  %209 = phi i32 [ %191, %195 ], [ %277, %203 ]
  %210 = phi i32 [ %190, %195 ], [ %266, %203 ]
  %211 = phi i32 [ %189, %195 ], [ %256, %203 ]
  tail call void @llvm.assume(i1 %32)
  br label %212

212:
  %213 = phi i64 [ %231, %212 ], [ %205, %204 ]
  %214 = phi i32 [ %228, %212 ], [ %206, %204 ]
  %215 = phi i32 [ %227, %212 ], [ %207, %204 ]
  %216 = phi i32 [ %215, %212 ], [ %208, %204 ]
  %217 = phi i32 [ %216, %212 ], [ %209, %204 ]
  %218 = phi i32 [ %217, %212 ], [ %210, %204 ]
  %219 = phi i32 [ %218, %212 ], [ %211, %204 ]
  %220 = phi i64 [ %232, %212 ], [ 0, %204 ]
  %221 = lshr i32 %219, 2
  %222 = xor i32 %221, %219
  %223 = shl i32 %222, 1
  %224 = shl i32 %215, 4
  %225 = xor i32 %224, %223
  %226 = xor i32 %225, %215
  %227 = xor i32 %226, %222
  %228 = add i32 %214, 362437
  %229 = add i32 %227, %228
  %230 = getelementptr inbounds i32, ptr %43, i64 %213
  store i32 %229, ptr %230, align 4
  %231 = add i64 %213, 1
  %232 = add i64 %220, 1
  %233 = icmp eq i64 %232, %33
  br i1 %233, label %234, label %212

234:
  %235 = phi i32 [ %189, %188 ], [ %256, %203 ], [ %218, %212 ]
  %236 = phi i32 [ %190, %188 ], [ %266, %203 ], [ %217, %212 ]
  %237 = phi i32 [ %191, %188 ], [ %277, %203 ], [ %216, %212 ]
  %238 = phi i32 [ %192, %188 ], [ %288, %203 ], [ %215, %212 ]
  %239 = phi i32 [ %193, %188 ], [ %299, %203 ], [ %227, %212 ]
  %240 = phi i32 [ %194, %188 ], [ %300, %203 ], [ %228, %212 ]
  store i32 %235, ptr %10, align 4
  store i32 %236, ptr %15, align 4
  store i32 %237, ptr %16, align 4
  store i32 %238, ptr %17, align 4
  store i32 %239, ptr %18, align 4
  store i32 %240, ptr %19, align 4
  br label %307

241:
  %242 = phi i64 [ %304, %241 ], [ 0, %195 ]
  %243 = phi i32 [ %300, %241 ], [ %194, %195 ]
  %244 = phi i32 [ %299, %241 ], [ %193, %195 ]
  %245 = phi i32 [ %288, %241 ], [ %192, %195 ]
  %246 = phi i32 [ %277, %241 ], [ %191, %195 ]
  %247 = phi i32 [ %266, %241 ], [ %190, %195 ]
  %248 = phi i32 [ %256, %241 ], [ %189, %195 ]
  %249 = phi i64 [ %305, %241 ], [ 0, %195 ]
  %250 = lshr i32 %248, 2
  %251 = xor i32 %250, %248
  %252 = shl i32 %251, 1
  %253 = shl i32 %244, 4
  %254 = xor i32 %253, %252
  %255 = xor i32 %254, %244
  %256 = xor i32 %255, %251
  %257 = add i32 %243, 362437
  %258 = add i32 %256, %257
  %259 = getelementptr inbounds i32, ptr %43, i64 %242
  store i32 %258, ptr %259, align 4
  %260 = lshr i32 %247, 2
  %261 = xor i32 %260, %247
  %262 = shl i32 %261, 1
  %263 = shl i32 %256, 4
  %264 = xor i32 %263, %262
  %265 = xor i32 %264, %256
  %266 = xor i32 %265, %261
  %267 = add i32 %243, 724874
  %268 = add i32 %266, %267
  %269 = getelementptr inbounds i32, ptr %43, i64 %242
  %270 = getelementptr inbounds i8, ptr %269, i64 4
  store i32 %268, ptr %270, align 4
  %271 = lshr i32 %246, 2
  %272 = xor i32 %271, %246
  %273 = shl i32 %272, 1
  %274 = shl i32 %266, 4
  %275 = xor i32 %274, %273
  %276 = xor i32 %275, %266
  %277 = xor i32 %276, %272
  %278 = add i32 %243, 1087311
  %279 = add i32 %277, %278
  %280 = getelementptr inbounds i32, ptr %43, i64 %242
  %281 = getelementptr inbounds i8, ptr %280, i64 8
  store i32 %279, ptr %281, align 4
  %282 = lshr i32 %245, 2
  %283 = xor i32 %282, %245
  %284 = shl i32 %283, 1
  %285 = shl i32 %277, 4
  %286 = xor i32 %285, %284
  %287 = xor i32 %286, %277
  %288 = xor i32 %287, %283
  %289 = add i32 %243, 1449748
  %290 = add i32 %288, %289
  %291 = getelementptr inbounds i32, ptr %43, i64 %242
  %292 = getelementptr inbounds i8, ptr %291, i64 12
  store i32 %290, ptr %292, align 4
  %293 = lshr i32 %244, 2
  %294 = xor i32 %293, %244
  %295 = shl i32 %294, 1
  %296 = shl i32 %288, 4
  %297 = xor i32 %296, %295
  %298 = xor i32 %297, %288
  %299 = xor i32 %298, %294
  %300 = add i32 %243, 1812185
  %301 = add i32 %299, %300
  %302 = getelementptr inbounds i32, ptr %43, i64 %242
  %303 = getelementptr inbounds i8, ptr %302, i64 16
  store i32 %301, ptr %303, align 4
  %304 = add i64 %242, 5
  %305 = add i64 %249, 5
  %306 = icmp eq i64 %305, %35
  br i1 %306, label %203, label %241

307:
  %308 = phi i64 [ 0, %234 ], [ %312, %307 ]
  %309 = getelementptr inbounds [1 x i32], ptr %10, i64 %308
  %310 = load i32, ptr %309, align 4
  %311 = getelementptr inbounds i32, ptr %46, i64 %308
  store i32 %310, ptr %311, align 4
  %312 = add i64 %308, 1
  %313 = icmp eq i64 %312, 6
  br i1 %313, label %314, label %307

314:
  br label %315

315:
  %316 = add i64 %45, -1
  %317 = getelementptr inbounds i32, ptr %43, i64 %1
  %318 = getelementptr inbounds i32, ptr %44, i64 %3
  %319 = getelementptr inbounds i32, ptr %46, i64 %5
  %320 = icmp sgt i64 %45, 1
  br i1 %320, label %42, label %321

321:
  ret void
}

declare i32 @llvm.smax.i32(i32, i32)

declare i32 @llvm.smin.i32(i32, i32)

declare i16 @llvm.cttz.i16(i16, i1)

declare <4 x i32> @llvm.smax.v4i32(<4 x i32>, <4 x i32>)

declare void @llvm.assume(i1)
