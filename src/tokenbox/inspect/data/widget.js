/* tokenbox inspector, Apache-2.0. With preact (MIT) and htm (Apache-2.0): see NOTICE. */
var S,Se,ht,L,re,Y,ze,G,Ce,le,se,_t,q=Symbol.for("pv"),Z={},ee=[],mt=/^m(i|n|o|s|text|space)$/,ce=Array.isArray,pe=ee.slice,j=Object.assign;function F(t){t&&t.parentNode&&t.remove()}function Me(t,e,n){var a,i,o,r={},s=arguments.length;for(o in e)o=="key"?a=e[o]:o=="ref"&&typeof t!="function"?i=e[o]:r[o]=e[o];return s>2&&(r.children=s>3?pe.call(arguments,2):n),V(t,r,a,i,null)}function V(t,e,n,a,i){var o={type:t,props:e,key:n,ref:a,__k:null,__:null,__b:0,__e:null,__c:null,constructor:q,__v:i||++Se,__i:-1,__u:0};return!i&&S.vnode&&S.vnode(o),o}function te(t){return t.children}function Q(t,e){this.props=t,this.context=e,this.__g=0}function W(t,e){if(e==null)return t.__&&W(t.__,t.__i+1);for(var n;e<t.__k.length;e++)if((n=t.__k[e])&&n.__e)return n.__e;return typeof t.type!="function"||t.props.__P?null:W(t)}function gt(t){var e,n=t.__v,a=n.__e,i=[],o=[],r=t.__P;r&&((e=j({constructor:q},n)).__v=n.__v+1,S.vnode&&S.vnode(e),de(r,e,n,t.__n,r.namespaceURI,32&n.__u?[a]:null,i,a||W(n),32&n.__u,o),e.__v=n.__v,e.__.__k[e.__i]=e,He(i,e,o),n.__=n.__e=null,e.__e!=a&&Te(e))}function Te(t){if((t=t.__)&&t.__c&&!t.props.__P)return t.__e=null,t.__k.some(function(e){return e&&(t.__e=e.__e)}),Te(t)}function ke(t){(8&t.__g||(t.__g|=8,L.push(t),Y++))&&re==S.debounceRendering||((re=S.debounceRendering)||queueMicrotask)(Pe)}function Pe(){try{for(var t,e=1;L.length;)L.length>e&&L.sort(ze),t=L.shift(),e=L.length,8&t.__g&&gt(t)}finally{(Y=L.length)&&(re||queueMicrotask)(Pe)}}function Ne(t,e,n,a,i,o,r,s,p,u,c){var h,d,l,f,g,x,m=a.__k||ee,b=e.length;for(p=xt(n,e,m,p,b),h=0;h<b;h++)(l=n.__k[h])!=null&&(d=~l.__i&&m[l.__i]||Z,l.__i=h,x=de(t,l,d,i,o,r,s,p,u,c),f=l.__e,(d.ref!=l.ref||8&d.__u)&&(d.ref&&ue(d.ref,null,l,d),l.ref&&c.push(l.ref,l.__c||f,l)),g=g||f,4&l.__u?(p=Ee(l,p,t,!d.__v),d.__e&&(d.__e=null)):typeof l.type=="function"&&x!==void 0?p=x:f&&(p=f.nextSibling),l.__u&=-21);return n.__e=g,p}function xt(t,e,n,a,i){var o,r,s,p,u,c,h,d,l,f=n.length,g=f,x=0,m=0,b=t.__k=Array(i);for(o=0;o<i;o++)(r=e[o])!=null&&typeof r!="boolean"&&typeof r!="function"?(typeof r!="object"||r.constructor===String?r=b[o]=V(null,r):ce(r)?r=b[o]=V(te,{children:r}):r.constructor===q&&r.__b?r=b[o]=V(r.type,r.props,r.key,r.ref,r.__v):b[o]=r,p=o+x,r.__=t,r.__b=t.__b+1,s=null,~(u=r.__i=bt(r,n,p,g))&&(g--,(s=n[u])&&(s.__u|=2)),s&&s.__v?(r.__u|=16,u==p-1?x--:u==p+1?x++:u!=p&&(u>p?x--:x++,m=1)):(~u||(i>f?x--:i<f&&x++),typeof r.type!="function"&&(r.__u|=4))):b[o]=null;if(m){for(c=[],h=[],o=0;o<i;o++)if((r=b[o])&&16&r.__u){for(x=0,d=c.length;x<d;)c[l=x+d>>1]<r.__i?x=l+1:d=l;c[x]=r.__i,h[o]=x+1}for(x=c.length;o--;)h[o]&&(h[o]==x?x--:b[o].__u|=4)}if(g)for(o=0;o<f;o++)!(s=n[o])||2&s.__u||(s.__e==a&&(a=W(s)),fe(s,s));return a}function Ee(t,e,n,a){var i,o,r,s;if(typeof t.type=="function"){if(t.props.__P)return e;if(i=t.__k)for(o=0;o<i.length;o++)i[o]&&(i[o].__=t,e=Ee(i[o],e,n,!1));return e}for(e&&!e.parentNode&&(e=W(t))&&!e.parentNode&&(e=null),r=t.__e,s=e;s&&s.nodeType==8;)s=s.nextSibling;for(r!=s&&(!a&&n.moveBefore&&r.parentNode?n.moveBefore(r,e):n.insertBefore(r,e||null)),e=r;(e=e&&e.nextSibling)&&e.nodeType==8&&!e.data.startsWith("$s"););return e}function bt(t,e,n,a){var i,o=t.key,r=t.type,s=e[n],p=s&&!(2&s.__u);if(s===null&&o==null||p&&o==s.key&&r==s.type)return n;if(a>(p?1:0)){for(i=n-1;i>=0;i--)if((s=e[i])&&!(2&s.__u)&&o==s.key&&r==s.type)return i;for(i=n+1;i<e.length;i++)if((s=e[i])&&!(2&s.__u)&&o==s.key&&r==s.type)return i}return-1}function ye(t,e,n){n==null&&(n=""),e[0]=="-"?t.setProperty(e,n):t[e]=n}function K(t,e,n,a,i){var o,r;if(e=="style")if(typeof n=="string")t.style.cssText=n;else{if(typeof a=="string"&&(t.style.cssText=a=""),a)for(e in a)n&&e in n||ye(t.style,e);if(n)for(e in n)a&&n[e]==a[e]||ye(t.style,e,n[e])}else if(e[0]=="o"&&e[1]=="n")typeof n!="function"&&(n=null),typeof a!="function"&&(a=null),(t.__e||(t.__e={}))[e]=n,n&&a||(r=se[e]||(se[e]=$t(e)),(t.__a||(t.__a={}))[e]=le,o=e!=(e=e.replace(Ce,"$1")),(e=e.slice(2))[0]<"a"&&(e=e.toLowerCase()),n?t.addEventListener(e,r,o):t.removeEventListener(e,r,o));else{if(i=="http:\x2f/www.w3.org/2000/svg")e=e.replace(/xlink(H|:h)/,"h").replace(/sName$/,"s");else if(e!="width"&&e!="height"&&e!="href"&&e!="list"&&e!="form"&&e!="tabIndex"&&e!="download"&&e!="rowSpan"&&e!="colSpan"&&e!="role"&&e!="popover"&&e in t)try{return void(t[e]=n??"")}catch{}if(typeof n=="function")return;n==null||n===!1&&e[4]!="-"?t.removeAttribute(e):t.setAttribute(e,e=="popover"&&n==1?"":n)}}function $t(t){return function(e){var n=this.__e;if(n){if(n=n[t],e[G]==null)e[G]=le++;else if(e[G]<this.__a[t])return;return n(S.event?S.event(e):e)}}}function de(t,e,n,a,i,o,r,s,p,u){var c,h,d,l,f,g,x,m,b,v,k,y,M,w,A,we,D,R,O=e.type;if(e.constructor!==q)return null;128&n.__u&&(p=32&n.__u,c=n.__c.__z)&&(e.__u|=p,h=o=[],c.nodeType==8?s=X(c,o):o.push(c),s=o[0]||s),(c=S.__b)&&c(e);e:if(typeof O=="function"){d=r.length;try{if(m=e.props,b=(c=O.prototype)&&c.render,v=(c=O.contextType)&&a[c.__c],k=c?v?v.props.value:c.__:a,(l=n.__c)?(e.__c=l,2&l.__g&&(l.__g|=1)):(b?e.__c=l=new O(m,k):(e.__c=l=new Q(m,k),l.constructor=O,l.render=wt),v&&v.sub(l),l.state||(l.state={}),l.__n=a,l.__g|=8,l.__h=[],l.__k=[]),b&&(l.__s||(l.__s=l.state),O.getDerivedStateFromProps&&(l.__s==l.state&&(l.__s=j({},l.__s)),j(l.__s,O.getDerivedStateFromProps(m,l.__s)))),f=l.props,g=l.state,l.__v=e,n.__c){if(m!==f&&b&&!O.getDerivedStateFromProps&&l.componentWillReceiveProps&&l.componentWillReceiveProps(m,k),e.__v==n.__v&&!(8&l.__g)||!(4&l.__g)&&l.shouldComponentUpdate&&l.shouldComponentUpdate(m,l.__s,k)===!1){e.__v!=n.__v&&(l.props=m,l.state=l.__s,l.__g&=-9),e.__e=n.__e,e.__k=n.__k,e.__k.some(function(N){N&&(N.__=e)}),ee.push.apply(l.__h,l.__k),l.__k=[],l.__h.length&&r.push(l),s=W(n);break e}l.componentWillUpdate&&l.componentWillUpdate(m,l.__s,k),b&&l.componentDidUpdate&&l.__h.push(function(){l.componentDidUpdate(f,g,x)})}else b&&!O.getDerivedStateFromProps&&l.componentWillMount&&l.componentWillMount(),b&&l.componentDidMount&&l.__h.push(l.componentDidMount);l.context=k,l.props=m,l.__P=t,l.__g&=-5,y=S.__r,M=b?25:0;do l.__g&=-9,y&&y(e),c=l.render(l.props,l.state=l.__s,l.context);while(8&l.__g&&++M<25);b&&(ee.push.apply(l.__h,l.__k),l.__k=[]),l.state=l.__s,l.getChildContext&&(a=j({},a,l.getChildContext())),b&&n.__c&&l.getSnapshotBeforeUpdate&&(x=l.getSnapshotBeforeUpdate(f,g)),w=c&&c.type===te&&c.key==null?c.props.children:c,m.__P&&(c=s,i=(t=m.__P).namespaceURI,p=o=null,n.props&&n.props.__P!=t&&(n.__k.some(function(N){N&&fe(N,N)}),n.__k=null),s=n.__k?W(n,0):null),s=Ne(t,ce(w)?w:[w],e,n,a,i,o,r,s,p,u),m.__P&&(e.__e=null,s=c),e.__u&=-161,h&&h.some(F),l.__h.length&&r.push(l),1&l.__g&&(l.__g&=-4)}catch(N){if(r.length=d,e.__v=null,p||o)if(N&&N.then){if(e.__u|=128|p,o){for(~(D=o.indexOf(s||void 0))||(D=o.length);(R=o[D-1])&&R.nodeType==8;)D--;for(;D<o.length;D++)if(R=o[D])if(o[D]=null,A){if(R==we)break}else{if(R.nodeType!=8)break;R.data.startsWith("$s")&&(we=X(A=R))}}if(!A){for(;s&&s.nodeType==8&&s.nextSibling;)s=s.nextSibling;A=s}(c=X(A=e.__c.__z||(e.__c.__z=A)))?(e.__e=A,s=c):e.__e=s,s=s&&s.nextSibling}else o&&o.some(F);else e.__e=n.__e;e.__k||(e.__k=n.__k||[]),N&&N.then||Oe(e),S.__e(N,e,n)}}else s=e.__e=vt(n.__e,e,n,a,i,o,r,p,u,t);return(c=S.diffed)&&c(e),s}function X(t,e){if(t&&t.nodeType==8&&t.data.startsWith("$s"))for(var n=1;t=t.nextSibling;){if(t.nodeType==8){if(t.data.startsWith("$s"))n++;else if(t.data.startsWith("/$s")&&!--n)return t}e&&e.push(t)}}function Oe(t){t&&(t.__c&&(t.__c.__g|=4),t.__k&&t.__k.some(Oe))}function He(t,e,n){for(var a=0;a<n.length;)ue(n[a++],n[a++],n[a++]);S.__c&&S.__c(e,t),t.some(function(i){try{t=i.__h,i.__h=[],t.some(function(o){o.call(i)})}catch(o){S.__e(o,i.__v)}})}function vt(t,e,n,a,i,o,r,s,p,u){var c,h,d,l,f,g,x,m,b=n.props||Z,v=e.props,k=e.type;if(k=="svg"?i="http:\x2f/www.w3.org/2000/svg":k=="math"?i="http:\x2f/www.w3.org/1998/Math/MathML":i||(i="http:\x2f/www.w3.org/1999/xhtml"),o){for(c=0;c<o.length;c++)if((f=o[c])&&(k?f.localName==k:f.nodeType==3)){t=f,o[c]=null;break}}if(!t){if(m=u.ownerDocument||document,!k)return m.createTextNode(v);t=m.createElementNS(i,k,v.is?v:u),s&&(S.__m&&S.__m(e,o),s=!1),o=null}if(k){if(u=k=="template"&&t.content||t,o=k=="textarea"&&v.defaultValue!=null?null:o&&pe.call(u.childNodes),!s&&o)for(b={},c=0;c<t.attributes.length;c++)b[(f=t.attributes[c]).name]=f.value;for(c in b)f=b[c],c=="dangerouslySetInnerHTML"?d=f:c=="children"||c in v||c=="value"&&"defaultValue"in v||c=="checked"&&"defaultChecked"in v||K(t,c,null,f,i);for(c in v)f=v[c],c=="children"?l=f:c=="dangerouslySetInnerHTML"?h=f:c=="value"?g=f:c=="checked"?x=f:s&&typeof f!="function"||b[c]===f||K(t,c,f,b[c],i);h?(s||d&&(h.__html==d.__html||h.__html==t.innerHTML)||(t.innerHTML=h.__html),e.__k=[]):(d&&(t.textContent=""),(k=="foreignObject"||i=="http:\x2f/www.w3.org/1998/Math/MathML"&&mt.test(k))&&(i="http:\x2f/www.w3.org/1999/xhtml"),Ne(u,ce(l)?l:[l],e,n,a,i,o,r,o?o[0]:n.__k&&W(n,0),s,p),o&&o.some(F)),s&&k!="textarea"||(c="value",k=="progress"&&g==null?t.removeAttribute(c):g==null||g===t[c]&&(k!="progress"||g)||K(t,c,g,b[c],i),c="checked",x!=null&&x!=t[c]&&K(t,c,x,b[c],i))}else b===v||s&&t.data==v||(t.data=v);return t}function ue(t,e,n,a){try{typeof t=="function"?e?e.__x=t(e)||1:a&&(a=a.__c||a.__e)&&(e=a.__x)&&(a.__x=null,typeof e=="function"?e():t(null)):t.current=e}catch(i){S.__e(i,n)}}function fe(t,e,n){var a,i,o,r;if(S.unmount&&S.unmount(t),!(a=t.ref)||a.current&&a.current!=t.__e||ue(a,null,e,t),a=t.__c){if(a.componentWillUnmount)try{a.componentWillUnmount()}catch(s){S.__e(s,e)}a.__P=a.__n=null}if(a=t.__k)for(r=0;r<a.length;r++)a[r]&&fe(a[r],e,typeof t.type!="function"||n&&!t.props.__P);!n&&(a=t.__c)&&(a=a.__z)&&(i=X(a,o=[]))&&(a==t.__e&&o.some(F),F(i),F(a)),n||F(t.__e),t.__e=t.__c=t.__=null}function wt(t,e,n){return this.constructor(t,n)}function he(t,e){var n,a,i,o;S.__&&S.__(t,e),e.nodeType==9&&(e=e.documentElement),a=(n=t&&32&t.__u)?null:e.__k,e.__k=V(te,{children:[t]}),i=[],o=[],de(e,e.__k,a||Z,Z,e.namespaceURI,a?null:e.firstChild?pe.call(e.childNodes):null,i,a?a.__e:e.firstChild,n,o),He(i,e.__k,o),e.__k.props.children=null}S={__e:function(t,e,n,a){for(var i,o,r;e=e.__;)if((i=e.__c)&&!(1&i.__g)){i.__g|=4;try{if((r=(o=i.constructor)&&o.getDerivedStateFromError)&&i.setState(o.getDerivedStateFromError(t)),i.componentDidCatch&&(i.componentDidCatch(t,a||{}),r=1),r&&8&i.__g)return void(i.__g|=2)}catch(s){t=s}}throw Y=0,t}},Se=0,ht=function(t){return t!=null&&t.constructor===q},Q.prototype.setState=function(t,e){var n=this.__s;n&&n!=this.state||(n=this.__s=j({},this.state)),typeof t=="function"&&(t=t(j({},n),this.props)),t&&(j(n,t),this.__v&&(e&&this.__k.push(e),ke(this)))},Q.prototype.forceUpdate=function(t){this.__v&&(this.__g|=4,t&&this.__h.push(t),ke(this))},Q.prototype.render=te,L=[],Y=0,ze=function(t,e){return t.__v.__b-e.__v.__b},G=Symbol(),Ce=/(PointerCapture)$|Capture$/i,le=0,se={},_t=0;var De=`:root {
  color-scheme: light dark;
  --paper: #faf8f4; --panel: #ffffff; --ink: #1f1c19; --soft: #625b52; --line: #e2dcd1; --wash: #f1ede5; --accent: #7a2e1d; --focus: #1c5fb8;
  --kept: #3f6f9c; --critical: #6b4b93; --expanded: #2f7353; --compressed: #8a6410; --truncated: #b3541e; --placeholder: #776f63; --dropped: #b03a31; --beside: #756e64; --mixed: #5f5952;
  --warm: #d19a5b; --new: #3f6d8f; --answer: #57866a; --on: #ffffff; --mark: #ffe08a;
  --t0: #e6eef7; --t1: #f8ead6; --t2: #e3f1e6; --t3: #f3e4f0;
  --mono: ui-monospace, "SF Mono", "Cascadia Mono", "JetBrains Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
  --sans: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", "DejaVu Sans", sans-serif;
  --serif: "Iowan Old Style", "Palatino Linotype", Palatino, "Source Serif 4", Georgia, "DejaVu Serif", serif;
}
@media (prefers-color-scheme: dark) { :root:not([data-theme="light"]) {
  --paper: #171513; --panel: #1f1c1a; --ink: #ece6dc; --soft: #aaa195; --line: #38332e; --wash: #282420; --accent: #e59a82; --focus: #7fb2f0;
  --kept: #5f92c4; --critical: #9a7cc6; --expanded: #56a37e; --compressed: #c89c3c; --truncated: #dd8048; --placeholder: #8d8579; --dropped: #dd6b60; --beside: #918a7e; --mixed: #9b948a;
  --warm: #c98f4f; --new: #5e93b8; --answer: #68a081; --on: #141210; --mark: #6d5410;
  --t0: #23313f; --t1: #43351f; --t2: #233829; --t3: #3d2a3a;
} }
:root[data-theme="dark"] {
  color-scheme: dark;
  --paper: #171513; --panel: #1f1c1a; --ink: #ece6dc; --soft: #aaa195; --line: #38332e; --wash: #282420; --accent: #e59a82; --focus: #7fb2f0;
  --kept: #5f92c4; --critical: #9a7cc6; --expanded: #56a37e; --compressed: #c89c3c; --truncated: #dd8048; --placeholder: #8d8579; --dropped: #dd6b60; --beside: #918a7e; --mixed: #9b948a;
  --warm: #c98f4f; --new: #5e93b8; --answer: #68a081; --on: #141210; --mark: #6d5410;
  --t0: #23313f; --t1: #43351f; --t2: #233829; --t3: #3d2a3a;
}
:root[data-theme="light"] { color-scheme: light; }
* { box-sizing: border-box; }
html { background: var(--paper); color: var(--ink); font: 15px/1.5 var(--sans); -webkit-text-size-adjust: 100%; }
body { margin: 0; }
main { max-width: 1240px; margin: 0 auto; padding: 20px 28px 48px; }
h1, h2, h3, p, ul, ol, dl, figure, table { margin: 0; padding: 0; }
ul, ol { list-style: none; }
button, input, select { font: inherit; color: inherit; background: var(--panel); border: 1px solid var(--line); border-radius: 6px; padding: 5px 10px; min-height: 34px; }
button { cursor: pointer; }
button:hover:not(:disabled) { border-color: var(--soft); }
button:disabled { color: var(--soft); cursor: default; border-style: dashed; }
:focus-visible { outline: 2px solid var(--focus); outline-offset: 2px; }
code, .figure, .figures, .digest { font-family: var(--mono); font-variant-numeric: tabular-nums; font-size: .92em; }
.faint, small { color: var(--soft); }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }

.top { display: flex; align-items: center; gap: 14px; padding-bottom: 16px; border-bottom: 1px solid var(--line); }
.brand { font-family: var(--serif); font-size: 17px; font-weight: 600; margin-right: auto; }
.brand span { font-weight: 400; font-style: italic; color: var(--soft); }
.files { min-width: 0; }
.files select { max-width: 46vw; text-overflow: ellipsis; }
.near { font-size: 12px; min-height: 26px; padding: 1px 8px; margin-left: 6px; }
.theme { white-space: nowrap; font-size: 13px; color: var(--soft); }
.headline { display: grid; grid-template-columns: 1fr auto; align-items: end; column-gap: 28px; padding: 26px 0 20px; }
.kind { grid-column: 1 / -1; color: var(--accent); font-size: 13px; }
h1 { font: 600 30px/1.2 var(--serif); letter-spacing: -.01em; overflow-wrap: anywhere; }
.sum { font-size: 17px; color: var(--soft); font-variant-numeric: tabular-nums; }
.sum b { font: 600 30px/1.2 var(--serif); color: var(--ink); }
.sum .free, .sum .over { margin-left: 12px; padding-left: 12px; border-left: 1px solid var(--line); }
.sum .over, .refused { color: var(--dropped); }
.verdict { border: 1px solid var(--line); border-left: 4px solid var(--expanded); background: var(--panel); border-radius: 6px; padding: 12px 16px; margin-bottom: 18px; }
.verdict.no { border-left-color: var(--dropped); }
.verdict h2 { font: 600 17px/1.4 var(--serif); }
.verdict li { margin-top: 4px; color: var(--soft); overflow-wrap: anywhere; }
.notes li { padding: 6px 12px; margin-bottom: 6px; background: var(--wash); border-radius: 6px; font-size: 14px; overflow-wrap: anywhere; }

.tabs { display: flex; gap: 4px; border-bottom: 1px solid var(--line); margin: 6px 0 20px; overflow-x: auto; scrollbar-width: none; }
.tabs button { border: 0; background: none; border-radius: 0; padding: 8px 14px; margin-bottom: -1px; color: var(--soft); border-bottom: 2px solid transparent; white-space: nowrap; }
.tabs button[aria-selected="true"] { color: var(--ink); font-weight: 600; border-bottom-color: var(--accent); }
.tabs button:focus-visible { outline-offset: -3px; }

.strip { margin-bottom: 10px; }
.track { position: relative; height: 62px; background: var(--wash); border-radius: 5px; overflow: hidden; box-shadow: inset 0 0 0 1px var(--line); }
.segment { position: absolute; top: 0; bottom: 0; cursor: pointer; overflow: hidden; color: var(--on); font-size: 12px; line-height: 1.25; box-shadow: inset -1px 0 0 var(--paper); }
.segment span { display: block; padding: 8px 8px 0; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
.segment:hover { filter: brightness(1.12); }
.segment.chosen { box-shadow: inset 0 0 0 3px var(--ink); }
.wall { position: absolute; top: 0; bottom: 0; width: 2px; margin-left: -2px; background: var(--ink); }
.cache { position: relative; height: 7px; margin-top: 3px; background: var(--wash); border-radius: 3px; overflow: hidden; }
.cache div { position: absolute; top: 0; bottom: 0; left: 0; }
.scale { display: flex; justify-content: space-between; font: 12px/1.8 var(--mono); color: var(--soft); }
figcaption { font-size: 14px; color: var(--soft); min-height: 3em; overflow-wrap: anywhere; }
figcaption b { color: var(--ink); font-weight: 600; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 18px; font-size: 13px; color: var(--soft); margin-bottom: 18px; }
.legend b { color: var(--ink); font-weight: 600; font-variant-numeric: tabular-nums; }
.swatch { display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin-right: 7px; }

.kept { background: var(--kept); } .critical { background: var(--critical); } .expanded { background: var(--expanded); } .compressed { background: var(--compressed); }
.truncated { background: var(--truncated); } .placeholder { background: var(--placeholder); } .beside { background: var(--beside); } .mixed { background: var(--mixed); }
.dropped { background: repeating-linear-gradient(135deg, var(--dropped) 0 2px, transparent 2px 5px); }
.warm { background: var(--warm); } .new { background: var(--new); } .answer { background: var(--answer); }
.held { background: var(--line); } .total { background: var(--ink); } .free.fill { background: repeating-linear-gradient(90deg, var(--line) 0 1px, transparent 1px 5px); box-shadow: inset 0 0 0 1px var(--line); }

.waterfall { width: 100%; border-collapse: collapse; margin-bottom: 26px; font-size: 14px; }
.waterfall caption { text-align: left; font: 600 15px/1.4 var(--serif); padding-bottom: 6px; }
.waterfall th { text-align: left; font-weight: 400; width: 150px; padding: 2px 0; white-space: nowrap; }
.sign { display: inline-block; width: 1.2em; color: var(--soft); }
.waterfall .figure, .sizes .figure { text-align: right; width: 92px; padding-right: 14px; }
.bar { position: relative; height: 20px; }
.fill { position: absolute; top: 4px; bottom: 4px; min-width: 1px; border-radius: 2px; }
tfoot td { padding-top: 6px; font-size: 13px; }

.halves { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1.08fr); gap: 26px; align-items: start; }
.tools { display: flex; flex-wrap: wrap; gap: 8px; align-items: center; margin-bottom: 8px; font-size: 14px; }
.tools input { width: 150px; }
.list { position: relative; max-height: 540px; overflow-y: auto; border: 1px solid var(--line); border-radius: 6px; background: var(--panel); }
.list-inside { position: relative; }
.row { position: absolute; left: 0; right: 0; display: grid; grid-template-columns: minmax(0, 1.8fr) minmax(40px, .8fr) 126px 96px; gap: 12px; align-items: center; padding: 0 12px; border-bottom: 1px solid var(--line); cursor: pointer; font-size: 14px; }
.row:hover { background: var(--wash); }
.row[aria-selected="true"] { background: var(--wash); box-shadow: inset 3px 0 0 var(--accent); }
.name { min-width: 0; line-height: 1.25; }
.name bdi, .name small { display: block; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
.name small { font-size: 12px; }
.meter { position: relative; display: block; height: 8px; }
.meter i { position: absolute; left: 0; top: 0; bottom: 0; border-radius: 2px; }
.meter .dropped { display: none; }
.meter.stack { display: flex; }
.meter.stack i { position: static; border-radius: 0; }
.figures { text-align: right; font-size: 13px; white-space: nowrap; }
.chip { display: inline-block; font-size: 12px; line-height: 1.5; padding: 0 8px; border-radius: 4px; background: none; box-shadow: inset 0 0 0 1px var(--line), inset 4px 0 0 var(--chip, var(--line)); padding-left: 11px; white-space: nowrap; justify-self: start; }
.chip.kept { --chip: var(--kept); } .chip.critical { --chip: var(--critical); } .chip.expanded { --chip: var(--expanded); } .chip.compressed { --chip: var(--compressed); }
.chip.truncated { --chip: var(--truncated); } .chip.placeholder { --chip: var(--placeholder); } .chip.dropped { --chip: var(--dropped); } .chip.beside { --chip: var(--beside); }
.chip.plain { box-shadow: inset 0 0 0 1px var(--line); padding-left: 8px; color: var(--soft); white-space: normal; }

.card { background: var(--panel); border: 1px solid var(--line); border-radius: 6px; padding: 18px 20px; min-width: 0; }
.card.empty, p.empty { padding: 40px 24px; }
p.empty { color: var(--soft); }
.card header { margin-bottom: 12px; }
.card h2, .panel h2 { font: 600 20px/1.3 var(--serif); overflow-wrap: anywhere; }
.card header p { display: flex; flex-wrap: wrap; gap: 6px; margin-top: 6px; }
.card h3 { font-size: 14px; font-weight: 600; margin: 14px 0 4px; }
.sizes { width: 100%; border-collapse: collapse; font-size: 14px; }
.sizes th { text-align: left; font-weight: 400; color: var(--soft); width: 52px; }
.fill.mark { background: var(--soft); }
.why li, .forms li { font-size: 14px; padding: 3px 0 3px 12px; border-left: 2px solid var(--line); overflow-wrap: anywhere; }
.forms .taken { border-left-color: var(--accent); }
.forms .figure { color: var(--soft); margin-left: 8px; }
.fields { display: flex; flex-wrap: wrap; gap: 4px 22px; margin: 12px 0; font-size: 14px; }
.fields div { display: flex; gap: 7px; min-width: 0; }
.fields dt, .facts dt { color: var(--soft); }
.fields dd, .facts dd { margin: 0; overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }
.choice { display: flex; flex-wrap: wrap; align-items: center; gap: 6px; margin: 14px 0 8px; font-size: 13px; }
.choice button[aria-pressed="true"] { background: var(--ink); color: var(--paper); border-color: var(--ink); }
.text { max-height: 460px; overflow: auto; background: var(--wash); border-radius: 6px; padding: 12px 14px; }
.text pre, .around { margin: 0; font: 13px/1.55 var(--mono); white-space: pre-wrap; overflow-wrap: anywhere; unicode-bidi: plaintext; }
.text pre.long { content-visibility: auto; contain-intrinsic-size: auto 900px; }
#view > .text { max-height: 74vh; }
.gone del { color: var(--soft); text-decoration-color: var(--dropped); text-decoration-thickness: 1px; }
.more { margin-top: 10px; }
.digest { margin-top: 10px; font-size: 12px; overflow-wrap: anywhere; }
.expand { margin-top: 8px; font-size: 14px; overflow-wrap: anywhere; }

.control { display: grid; grid-template-columns: auto minmax(0, 1fr) auto; gap: 6px 16px; align-items: center; padding: 12px 16px; background: var(--panel); border: 1px solid var(--line); border-radius: 6px; margin-bottom: 20px; }
.control > p { grid-column: 1 / -1; font-size: 14px; color: var(--soft); overflow-wrap: anywhere; }
.control > p b { color: var(--ink); }
.control input[type="range"] { width: 100%; padding: 0; border: 0; background: none; accent-color: var(--accent); }
.control input[type="number"] { width: 110px; font-family: var(--mono); }
.with { display: flex; flex-wrap: wrap; gap: 6px; }
.check { display: flex; gap: 8px; align-items: center; }
.check input { min-height: 0; width: 16px; height: 16px; accent-color: var(--accent); }
.pair { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 12px; }
.pair select { width: 100%; margin-top: 3px; }
.panel { margin-top: 22px; }
.panel p { margin: 6px 0 10px; }
.around { background: var(--wash); border-radius: 6px; padding: 12px 14px; max-height: 300px; overflow: auto; }
mark { background: var(--mark); color: inherit; border-radius: 2px; }
.scroll { overflow-x: auto; }
.differ { width: 100%; border-collapse: collapse; font-size: 14px; }
.differ th, .differ td { text-align: left; padding: 6px 14px 6px 0; border-bottom: 1px solid var(--line); font-weight: 400; overflow-wrap: anywhere; }
.differ thead th { color: var(--soft); }
.turns .list { max-height: 260px; margin-bottom: 10px; }
.turns .row { grid-template-columns: minmax(0, 1fr) minmax(60px, 2fr) 170px 78px; }
.tokens pre { line-height: 1.9; }
.token { border-radius: 2px; box-decoration-break: clone; }
.t0 { background: var(--t0); } .t1 { background: var(--t1); } .t2 { background: var(--t2); } .t3 { background: var(--t3); }
.pager { margin-top: 10px; font-size: 14px; }
footer { margin-top: 40px; padding-top: 18px; border-top: 1px solid var(--line); font-size: 13px; }
.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(260px, 1fr)); gap: 6px 24px; margin-bottom: 14px; }
.facts div { display: flex; gap: 8px; min-width: 0; }
.facts dt { white-space: nowrap; }

@media (max-width: 820px) {
  main { padding: 14px 16px 40px; }
  .headline { grid-template-columns: minmax(0, 1fr); row-gap: 6px; padding: 18px 0 14px; }
  h1, .sum b { font-size: 24px; }
  .halves { grid-template-columns: minmax(0, 1fr); }
  .list { max-height: 330px; }
  .row { grid-template-columns: minmax(0, 1fr) auto 92px; gap: 10px; }
  .row .meter { display: none; }
  .turns .row { grid-template-columns: minmax(0, 1fr) 70px auto; }
  .turns .row .meter { display: flex; }
  .turns .cost { display: none; }
  .control { grid-template-columns: minmax(0, 1fr); }
  .control.pair, .pair { grid-template-columns: minmax(0, 1fr); }
  .waterfall th { width: 98px; }
  .waterfall .figure { width: 76px; }
  .scale span:nth-child(even) { display: none; }
  .tools input { width: 110px; }
  .brand span { display: none; }
  .sum .free, .sum .over { display: block; margin: 0; padding: 0; border: 0; }
  .tabs { flex-wrap: wrap; gap: 0; font-size: 14px; }
  .tabs button { padding: 8px 7px; }
}
@media (prefers-reduced-motion: no-preference) { .fill, .cache div { transition: left .12s, width .12s; } }
@media (forced-colors: active) { .segment, .fill, .meter i, .swatch { forced-color-adjust: none; } }
@media print { .tabs, .tools, .theme { display: none; } .list, .text { max-height: none; } }
`;var I,C,_e,Le,me=Object.is,ne=0,Ve=[],ge=[],z=S,We=z.__b,Ue=z.__r,Ae=z.diffed,Re=z.__c,Fe=z.unmount,je=z.__;function oe(t,e){z.__h&&z.__h(C,t,ne||e),ne=0;var n=C.__H||(C.__H={__:[],__h:[]});return t>=n.__.length&&n.__.push({}),n.__[t]}function T(t){return ne=1,yt(Ke,t)}function yt(t,e,n){var a=oe(I++,2);if(a.t=t,!a.__c&&(a.__=[n?n(e):Ke(void 0,e),function(o){var r=(a.__N||a.__)[0],s=a.t(r,o);me(r,s)||(a.__N=[s,a.__[1]],a.__c.setState({}))}],a.__c=C,!C.__f)){C.__f=!0;var i=C.shouldComponentUpdate;C.shouldComponentUpdate=function(o,r,s){var p=this.__H;if(!p)return!0;var u=!1,c=this.props!=o;if(p.__.some(function(d){d.__N&&(u=!0,me(d.__[0],d.__N[0])||(c=!0))}),i){var h=i.call(this,o,r,s);return u?h||c:h}return!u||c}}return a.__}function ae(t,e){var n=oe(I++,3);!z.__s&&be(n.__H,e)&&(n.__P=!0,n.__=t,n.u=e,C.__H.__h.push(n))}function qe(t,e){var n=oe(I++,4);!z.__s&&be(n.__H,e)&&(n.__P=!1,n.__=t,n.u=e,C.__h.push(n))}function Je(t){return ne=5,P(function(){return{current:t}},[])}function P(t,e){var n=oe(I++,7);return be(n.__H,e)&&(n.__=t(),n.__H=e),n.__}function St(){var t;do{for(;t=ge.shift();)try{J(t)}catch(n){z.__e(n,{__:(t=t.__P)&&t.__v})}for(;t=Ve.shift();){var e=t.__H;if(t.__P&&e)try{e.__h.some(J),e.__h.some(xe),e.__h=[]}catch(n){e.__h=[],z.__e(n,t.__v)}}}while(ge.length)}z.__b=function(t){C=null,We&&We(t)},z.__=function(t,e){t&&e.__k&&e.__k.__m&&(t.__m=e.__k.__m),je&&je(t,e)},z.__r=function(t){Ue&&Ue(t),I=0;var e=(C=t.__c).__H;e&&(_e==C?C.__h=[]:(e.__h.some(J),e.__h.some(xe),I=0),e.__h=[],e.__.some(function(n){n.__N&&(n.__=n.__N),n.u=n.__N=void 0})),_e=C},z.diffed=function(t){Ae&&Ae(t);var e=t.__c;e&&e.__H&&(e.__H.__h.length&&Be(Ve.push(e)),e.__H.__.some(function(n){n.u&&(n.__H=n.u)})),_e=C=null},z.__c=function(t,e){e.some(function(n){try{n.__h.some(J),n.__h=n.__h.filter(function(a){return!a.__||xe(a)})}catch(a){n.__h=[function(){throw a}]}}),Re&&Re(t,e)},z.unmount=function(t){Fe&&Fe(t);var e,n,a=t.__c;a&&a.__H&&(a.__H.__.some(function(i){try{if(i.__P&&i.__c){if(n===void 0){for(n=t.__;n&&(!n.__c||!n.__c.__P);)n=n.__;n=n&&n.__c}i.__P=n,Be(ge.push(i))}else J(i)}catch(o){e=o}}),a.__H=void 0,e&&z.__e(e,a.__v))};var Ie=typeof requestAnimationFrame=="function";function zt(t){var e,n=function(){clearTimeout(a),Ie&&cancelAnimationFrame(e),setTimeout(t)},a=setTimeout(n,35);Ie&&(e=requestAnimationFrame(n))}function Be(t){t!=1&&Le==z.requestAnimationFrame||((Le=z.requestAnimationFrame)||zt)(St)}function J(t){var e=C,n=t.__c;typeof n=="function"&&(t.__c=void 0,n()),C=e}function xe(t){var e=C;t.__c=t.__(),C=e}function be(t,e){return!t||t.length!=e.length||e.some(function(n,a){return!me(n,t[a])})}function Ke(t,e){return typeof e=="function"?e(t):e}var Qe=function(t,e,n,a){var i;e[0]=0;for(var o=1;o<e.length;o++){var r=e[o++],s=e[o]?(e[0]|=r?1:2,n[e[o++]]):e[++o];r===3?a[0]=s:r===4?a[1]=Object.assign(a[1]||{},s):r===5?(a[1]=a[1]||{})[e[++o]]=s:r===6?a[1][e[++o]]+=s+"":r?(i=t.apply(s,Qe(t,s,n,["",null])),a.push(i),s[0]?e[0]|=2:(e[o-2]=0,e[o]=i)):a.push(s)}return a},Ge=new Map;function Xe(t){var e=Ge.get(this);return e||(e=new Map,Ge.set(this,e)),(e=Qe(this,e.get(t)||(e.set(t,e=(function(n){for(var a,i,o=1,r="",s="",p=[0],u=function(d){o===1&&(d||(r=r.replace(/^\s*\n\s*|\s*\n\s*$/g,"")))?p.push(0,d,r):o===3&&(d||r)?(p.push(3,d,r),o=2):o===2&&r==="..."&&d?p.push(4,d,0):o===2&&r&&!d?p.push(5,0,!0,r):o>=5&&((r||!d&&o===5)&&(p.push(o,0,r,i),o=6),d&&(p.push(o,d,0,i),o=6)),r=""},c=0;c<n.length;c++){c&&(o===1&&u(),u(c));for(var h=0;h<n[c].length;h++)a=n[c][h],o===1?a==="<"?(u(),p=[p],o=3):r+=a:o===4?r==="--"&&a===">"?(o=1,r=""):r=a+r[0]:s?a===s?s="":r+=a:a==='"'||a==="'"?s=a:a===">"?(u(),o=1):o&&(a==="="?(o=5,i=r,r=""):a==="/"&&(o<5||n[c][h+1]===">")?(u(),o===3&&(p=p[0]),o=p,(p=p[0]).push(2,0,o),o=0):a===" "||a==="	"||a===`
`||a==="\r"?(u(),o=2):r+=a),o===3&&r==="!--"&&(o=4,p=p[0])}return u(),p})(t)),e),arguments,[])).length>1?e:e[0]}var Ct=new Set(["dropped","omitted","evicted","absent","merged"]),Mt={kept:"kept",full:"kept",sent:"kept",expanded:"expanded",compressed:"compressed",summary:"compressed",outline:"compressed",masked:"compressed",reduced:"compressed",truncated:"truncated",cut:"truncated",placeholder:"placeholder",listed:"placeholder",beside:"beside"},H=t=>Ct.has(t),U=(t,e)=>H(t)?"dropped":e&&(t==="kept"||t==="full")?"critical":Mt[t]??"kept",Tt=/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,Ye=t=>t.replace(Tt,e=>`\\u${e.charCodeAt(0).toString(16).padStart(4,"0")}`);function et(t){let e=JSON.parse(t),n=new WeakMap,a=i=>i==null?null:typeof i=="number"?e.texts[i]:(n.has(i)||n.set(i,i.map(o=>typeof o=="number"?e.texts[o]:e.texts[o[0]].slice(o[1],o[2])).join("")),n.get(i));return e.entries.forEach((i,o)=>{i.number=o,i.title=Ye(i.title);for(let r of i.items)r.id=Ye(r.id);i.track=Ze(i,i.frames),i.slider&&(i.slider.track=Ze(i,i.slider.frames))}),{...e,text:a}}function Ze(t,e){let n=o=>({item:o,decision:"absent",size:0,ref:null,form:null,expand:null}),a=-1,i=t.items.map((o,r)=>n(r));return o=>{for(o<a?(a=-1,i=t.items.map((r,s)=>n(s))):o>a&&(i=i.slice());a<o;){a+=1;for(let[r,s,p=null,u=null,c=null,h=null]of e[a].changes)i[r]={item:r,decision:s,size:p,ref:u,form:c,expand:h}}return i}}function tt(t,e,n){if(t===null)return null;if(t===e)return[];if(typeof t=="number")return null;let a=t.filter(r=>typeof r!="number"&&r[0]===e),i=[],o=0;for(let[,r,s]of a)r>o&&i.push([o,r]),o=s;return o<n.length&&i.push([o,n.length]),i}var E=t=>t.parts_exact??t.exact,Pt=new Intl.NumberFormat("en-US"),$=(t,e=!0)=>t==null?"unknown":`${e?"":"~"}${Pt.format(t)}`,ie=(t,e)=>t<0?`${$(-t,e)} over`:`${$(t,e)} free`;var _=Xe.bind(Me),at=4e3;function nt(t,e=0,n=t.length){let a=[],i=e;for(;i<n;){let o=Math.min(i+at,n);if(o<n){let r=t.lastIndexOf(`
`,o);r>i?o=r+1:/[\ud800-\udbff]/.test(t[o-1])&&(o-=1)}a.push([i,o]),i=o}return a}var ot=16;function B({text:t,gone:e=[],label:n}){let a=P(()=>{let s=[],p=0;for(let[u,c]of[...e,[t.length,t.length]]){for(let[h,d]of nt(t,p,u))s.push([h,d,!1]);for(let[h,d]of nt(t,u,c))s.push([h,d,!0]);p=c}return s},[t,e]),[i,o]=T(ot);return ae(()=>o(ot),[t]),_`<div class="text" tabindex="0" role="region" aria-label=${n} onScroll=${s=>{let p=s.currentTarget;i<a.length&&p.scrollTop+2*p.clientHeight>p.scrollHeight&&o(i*2)}}>
    ${t===""&&_`<p class="faint">empty</p>`}
    ${a.slice(0,i).map(([s,p,u])=>_`<pre key=${s} class=${`${u?"gone":""}${p-s>at/2?" long":""}`} dir="auto">${u?_`<del>${t.slice(s,p)}</del>`:t.slice(s,p)}</pre>`)}
    ${i<a.length&&_`<button class="more" onClick=${()=>o(a.length)}>
      Show the other ${$(t.length-a[i][0])} characters</button>`}
  </div>`}function it(t,e){let n=Je(null),[a,i]=T(t);return qe(()=>{let o=()=>i(n.current?e(n.current):t);o();let r=new ResizeObserver(o);return r.observe(n.current),()=>r.disconnect()},[]),[n,a]}function rt({rows:t,height:e,label:n,chosen:a,onChoose:i,row:o,keyOf:r}){let[s,p]=it(600,m=>m.clientHeight||600),[u,c]=T(0),h=t.findIndex(m=>r(m)===a);ae(()=>{if(h<0)return;let m=h*e;m<s.current.scrollTop?s.current.scrollTop=m:m+e>s.current.scrollTop+s.current.clientHeight&&(s.current.scrollTop=m+e-s.current.clientHeight)},[a]);let d=m=>{let b=Math.max(1,Math.floor(p/e)-1),v={ArrowDown:h+1,ArrowUp:h-1,PageDown:h+b,PageUp:h-b,Home:0,End:t.length-1}[m.key];v===void 0||!t.length||(m.preventDefault(),i(r(t[Math.max(0,Math.min(t.length-1,v))])))},l=Math.max(0,Math.floor(u/e)-6),f=Math.min(t.length,Math.ceil((u+p)/e)+6),g=t.slice(l,f),x=h>=l&&h<f?`row-${r(t[h])}`:void 0;return _`<div class="list" ref=${s} tabindex="0" role="listbox" aria-label=${n} aria-activedescendant=${x} style=${{height:`${Math.max(1,t.length)*e+2}px`}}
      onScroll=${m=>c(m.currentTarget.scrollTop)} onKeyDown=${d}>
    <div class="list-inside" role="presentation" style=${{height:`${t.length*e}px`}}>
      ${g.map((m,b)=>_`<div key=${r(m)} id=${`row-${r(m)}`} role="option" class="row"
        aria-selected=${r(m)===a?"true":"false"} aria-setsize=${t.length} aria-posinset=${l+b+1}
        style=${{top:`${(l+b)*e}px`,height:`${e}px`}} onClick=${()=>i(r(m))}>${o(m)}</div>`)}
    </div>
  </div>`}function Nt(t,e,n,a){let i=[],o=0;for(let r of e){let s=r.size??0;if(!s)continue;let p=U(r.decision,t.items[r.item].critical),u=i[i.length-1];u&&(u.end-u.start)/n*a<1.5&&s/n*a<1.5?(u.end=o+s,u.items.push(r.item),p!==u.kind&&(u.kind="mixed")):i.push({start:o,end:o+s,kind:p,items:[r.item]}),o+=s}return i}var $e=t=>t.reduce((e,n)=>e+(n.size??0),0);function st({entry:t,frame:e,states:n,chosen:a,onChoose:i,cached:o=null,scale:r,label:s}){let[p,u]=it(0,w=>w.clientWidth),[c,h]=T(null),d=$e(n),l=Math.max(e.total??0,d,1),f=Math.max(r??0,e.budget??0,l),[g,x]=T(r===void 0&&f>6*l),m=g?l:f,b=P(()=>Nt(t,n,m,u||1e3),[t,n,m,u]),v=w=>`${100*w/m}%`,k=w=>w.items.length>1?`${w.items.length} sections`:t.items[w.items[0]].id,y=c??b.find(w=>w.items.includes(a)),M=e.budget===null?null:e.budget-(e.total??0);return _`<figure class="strip" aria-label=${s}>
    <div class="track" ref=${p} onMouseLeave=${()=>h(null)}>
      ${b.map(w=>_`<div key=${w.items[0]} class=${`segment ${w.kind} ${w.items.includes(a)?"chosen":""}`}
        style=${{left:v(w.start),width:v(w.end-w.start)}}
        onMouseEnter=${()=>h(w)} onClick=${()=>i(w.items[0])}>
        ${(w.end-w.start)/m*u>64&&_`<span>${k(w)}</span>`}</div>`)}
      ${e.budget!==null&&e.budget<=m&&_`<div class="wall" style=${{left:v(e.budget)}}></div>`}
    </div>
    ${o!==null&&_`<div class="cache" aria-hidden="true">
      <div class="warm" style=${{width:v(o.tokens)}}></div>
      <div class="new" style=${{left:v(o.tokens),width:v(Math.max(0,d-o.tokens))}}></div></div>`}
    <div class="scale" aria-hidden="true">${[0,.25,.5,.75,1].map(w=>_`<span>${$(Math.round(m*w))}</span>`)}</div>
    <figcaption>
      ${y?_`<b><bdi>${k(y)}</bdi></b> ${$(y.end-y.start,E(e))} tokens, ${y.kind==="mixed"?"several decisions":y.kind}`:_`${$(e.total,e.exact)} tokens${e.budget===null?"":` of ${$(e.budget)}, ${ie(M,e.exact)}`}. Widths are to scale.`}
      ${f>l*1.02&&_` <button class="near" onClick=${()=>x(!g)}>${g?`Show all ${$(f)}`:"Show only what is sent"}</button>`}
      ${o!==null&&_` <span class="faint">${o.note}</span>`}
    </figcaption>
  </figure>`}function lt({entry:t,frame:e,states:n}){let a=[],i=(h,d,l,f,g="")=>a.push({label:h,from:d,to:l,kind:f,sign:g}),o=e.budget,r=t.limits.length?t.limits[0][1]:o;if(t.limits.length){let h=r;t.limits.forEach(([d,l],f)=>{f?i(d,h-l,h,"held","\u2212"):i(d,0,l,"total"),h-=f?l:0})}o!==null&&i("budget",0,o,"total",t.limits.length?"=":"");let s=e.total??0,p=e.fixed;p!=null?(i("critical",0,Math.min(p,s),"critical","\u2212"),i("flexible",Math.min(p,s),s,"kept","\u2212")):i("sent",0,s,"kept",o===null?"":"\u2212"),o!==null&&i(o<s?"over":"free",Math.min(s,o),Math.max(s,o),o<s?"dropped":"free","=");let u=Math.max(r??0,s,1),c=s-$e(n);return _`<table class="waterfall"><caption>Where the budget goes</caption><tbody>
    ${a.map(({label:h,from:d,to:l,kind:f,sign:g})=>_`<tr><th scope="row"><span class="sign">${g}</span>${h}</th>
      <td class="figure">${$(l-d,f==="total"||f==="held"||e.exact)}</td>
      <td class="bar" aria-hidden="true"><div class=${`fill ${f}`} style=${{left:`${100*d/u}%`,width:`${100*(l-d)/u}%`}}></div></td></tr>`)}
    </tbody>${c!==0&&e.total!==null&&_`<tfoot><tr><td colspan="3" class="faint">${$(s,e.exact)} with ${c>0?"+":"\u2212"}${$(Math.abs(c))} at the joins: separators, markup, and tokens that merge at borders.</td></tr></tfoot>`}
  </table>`}function ct({entry:t,states:e}){let n=new Map;for(let{decision:a,item:i}of e){if(a==="absent")continue;let o=U(a,t.items[i].critical),{number:r,names:s}=n.get(o)??{number:0,names:new Set};n.set(o,{number:r+1,names:s.add(o==="critical"?o:a)})}return _`<ul class="legend">${[...n].map(([a,{number:i,names:o}])=>_`<li><span class=${`swatch ${a}`} aria-hidden="true"></span>${[...o].join(", ")} <b>${$(i)}</b></li>`)}</ul>`}var pt=t=>t.decision!=="absent";function Et({item:t,state:e,exact:n}){let a=Number((t.fields.find(([r])=>r==="min")?.[1]??"0").replaceAll(",","")),i=Math.max(t.base??0,e.size??0,a,1),o=[["base",t.base,"held"],...a?[["min",a,"mark"]]:[],["sent",e.size,U(e.decision,t.critical)]];return _`<table class="sizes"><caption class="unseen">Sizes in tokens</caption><tbody>${o.map(([r,s,p])=>_`<tr><th scope="row">${r}</th>
    <td class="figure">${$(s,n||r==="min"||r==="sent"&&H(e.decision))}</td>
    <td class="bar" aria-hidden="true"><div class=${`fill ${p}`} style=${{width:`${100*(s??0)/i}%`}}></div></td></tr>`)}</tbody></table>`}function dt({record:t,entry:e,frame:n,state:a,steps:i=n.steps??[]}){let[o,r]=T("sent"),s=a&&e.items[a.item],p=s?t.text(s.text):null,u=a?H(a.decision)?"":t.text(a.ref):null,c=P(()=>!a||p===null?null:H(a.decision)?[[0,p.length]]:tt(a.ref,s.text,p),[a,p]);if(!s)return _`<section class="card empty"><p class="faint">Choose a part in the strip or the list to see its text, and the reason for its size.</p></section>`;let h=i.filter(g=>g.items.includes(a.item)),d=c?c.reduce((g,[x,m])=>g+m-x,0):0,l=[["sent","Sent"],...p!==null&&d?[["cut","Left out marked"]]:[],...p!==null?[["whole","Whole"]]:[]],f=l.some(([g])=>g===o)?o:"sent";return _`<section class="card" aria-labelledby="card-title">
    <header><h2 id="card-title"><bdi>${s.id}</bdi></h2>
      <p><span class=${`chip ${U(a.decision,s.critical)}`}>${a.decision}</span>
        <span class="chip plain">${s.kind}</span>${s.critical&&_`<span class="chip plain">critical: never cut or dropped</span>`}</p></header>
    <${Et} item=${s} state=${a} exact=${E(n)} />
    ${a.form&&_`<p>Sent in the form <code>${a.form}</code>.</p>`}
    ${h.length>0&&_`<div class="why"><h3>Why</h3><ol>${h.map(g=>_`<li><b>${g.action}</b>${g.before===g.after?"":` ${$(g.before,n.exact)} \u2192 ${$(g.after,n.exact)}`}: ${g.why}</li>`)}</ol></div>`}
    ${s.fields.length>0&&_`<dl class="fields">${s.fields.map(([g,x])=>_`<div><dt>${g}</dt><dd><bdi>${x}</bdi></dd></div>`)}</dl>`}
    ${s.forms.length>0&&_`<div class="forms"><h3>Forms, best first</h3><ol>
      <li class=${a.form?"":"taken"}>its content <span class="figure">${$(s.base,E(n))}</span></li>
      ${s.forms.map(([g,x,m])=>_`<li class=${a.form===g?"taken":""}><details><summary><code>${g}</code> <span class="figure">${$(m,E(n))}</span></summary>
        ${x===null?_`<p class="faint">The record does not contain this text.</p>`:_`<${B} text=${t.text(x)} label=${`Form ${g}`} />`}</details></li>`)}</ol></div>`}
    ${a.expand&&_`<p class="expand">The rest comes back with <code>expand("${a.expand}")</code>.</p>`}
    <div class="choice" role="group" aria-label="Which text">${l.map(([g,x])=>_`<button aria-pressed=${f===g?"true":"false"} onClick=${()=>r(g)}>${x}</button>`)}
      ${d>0&&_`<span class="faint">${$(d)} characters left out</span>`}</div>
    ${f==="sent"&&u===null&&_`<p class="faint">The record does not contain this text.</p>`}
    ${f==="sent"&&u!==null&&_`<${B} text=${u} label=${`What is sent of ${s.id}`} />`}
    ${f==="cut"&&_`<${B} text=${p} gone=${c} label=${`${s.id}, what was left out is marked`} />`}
    ${f==="whole"&&_`<${B} text=${p} label=${`The whole text of ${s.id}`} />`}
    ${s.digest&&_`<p class="digest"><span class="faint">SHA-256</span> <code>${s.digest}</code></p>`}
  </section>`}var Ot=44,ve={sent:["in order",null],base:["largest first",t=>(e,n)=>(t.items[n.item].base??n.size??0)-(t.items[e.item].base??e.size??0)],lost:["most left out first",t=>(e,n)=>ut(t,n)-ut(t,e)]},ut=(t,e)=>(t.items[e.item].base??0)-(e.size??0);function Ht({entry:t,frame:e,states:n,chosen:a,onChoose:i}){let[o,r]=T(""),[s,p]=T("sent"),u=P(()=>{let d=o.toLowerCase(),l=n.filter(f=>pt(f)&&(!d||t.items[f.item].id.toLowerCase().includes(d)||f.decision.includes(d)||t.items[f.item].kind.includes(d)));return ve[s][1]?l.sort(ve[s][1](t)):l},[t,n,o,s]),c=P(()=>Math.max(1,...u.map(d=>Math.max(t.items[d.item].base??0,d.size??0)).slice(0,6e4)),[u]),h=d=>{let l=t.items[d.item],f=U(d.decision,l.critical);return _`<span class="name"><bdi>${l.id}</bdi><small>${l.kind==="section"?"":l.kind}</small></span>
      <span class="meter" aria-hidden="true"><i class="held" style=${{width:`${100*(l.base??0)/c}%`}}></i><i class=${f} style=${{width:`${100*(d.size??0)/c}%`}}></i></span>
      <span class="figures">${l.base!==null&&l.base!==d.size?_`<small>${$(l.base,E(e))} → </small>`:""}${$(d.size,E(e)||H(d.decision))}</span>
      <span class=${`chip ${f}`}>${d.decision}</span>`};return _`<section class="rows" aria-label="Sections">
    <div class="tools"><label><span class="unseen">Find a section</span><input type="search" placeholder="Find" value=${o} onInput=${d=>r(d.target.value)} /></label>
      <label><span class="unseen">Order</span><select value=${s} onChange=${d=>p(d.target.value)}>${Object.entries(ve).map(([d,[l]])=>_`<option value=${d}>${l}</option>`)}</select></label>
      <span class="faint" role="status">${$(u.length)} ${u.length===1?"row":"rows"}</span></div>
    <${rt} rows=${u} height=${Ot} label="Sections" chosen=${a} onChoose=${i} row=${h} keyOf=${d=>d.item} />
  </section>`}function Dt(t,e,n){if(t.usage&&t.usage.cached!==null&&t.usage.cached!==void 0)return{tokens:t.usage.cached,note:`${$(t.usage.cached)} tokens came from the prompt cache (the server's figure); the rest was new.`};if(!n)return null;let a=0;for(let i=0;i<e.length;i+=1){let[o,r]=[n[i],e[i]];if(!(H(o.decision)&&H(r.decision))){if(o.decision!==r.decision||o.size!==r.size||JSON.stringify(o.ref)!==JSON.stringify(r.ref))break;a+=r.size??0}}return{tokens:a,note:`${$(a,E(t))} tokens at the start are as they were one turn before, so a prompt cache can hold them.`}}function Lt({record:t,entry:e,frame:n,states:a,before:i=null,scale:o,steps:r,waterfall:s=!0,chosen:p,onChoose:u}){let c=P(()=>Dt(n,a,i),[n,a,i]);return _`<div class="stage">
    ${n.error?_`<p class="refused" role="status">${n.error}</p>`:_`<${st} entry=${e} frame=${n} states=${a} chosen=${p} onChoose=${u} cached=${c} scale=${o} label="The request, in order" />
        <${ct} entry=${e} states=${a} />`}
    ${s&&!n.error&&_`<${lt} entry=${e} frame=${n} states=${a} />`}
    <div class="halves"><${Ht} entry=${e} frame=${n} states=${a} chosen=${p} onChoose=${u} />
      <${dt} record=${t} entry=${e} frame=${n} state=${a[p]} steps=${r} /></div>
  </div>`}function ft({record:t,entry:e,chosen:n,onChoose:a,onBudget:i=()=>{}}){let{low:o,high:r,every:s,frames:p}=e.slider,u=e.frames[0].budget??r,[c,h]=T(u),d=P(()=>{let[y,M]=[0,p.length-1];for(;y<M;){let w=y+M+1>>1;p[w].budget<=c?y=w:M=w-1}return y},[e,c]),l=p[d],f=P(()=>e.slider.track(d),[e,d]),g=P(()=>e.track(0),[e]),x=f.filter((y,M)=>y.decision!==g[M].decision||y.form!==g[M].form).length,m=s||l.budget===c||d+1<p.length&&p[d+1].budget===c+1&&l.budget===c,b={...l,budget:m?c:l.budget},v=y=>{let M=Math.max(o,Math.min(r,Math.round(y)||0));h(M),i(M)},k=y=>y>=0&&y<p.length&&v(p[y].budget);return _`<div class="control"><label for="budget">Budget</label>
      <input id="budget" type="range" min=${o} max=${r} value=${c} aria-valuetext=${`${$(c)} tokens`} onInput=${y=>v(Number(y.target.value))} />
      <span class="with"><input type="number" aria-label="Budget in tokens" min=${o} max=${r} value=${c} onChange=${y=>v(Number(y.target.value))} />
      <button onClick=${()=>k(p[d].budget===c?d-1:d)} disabled=${d===0&&p[0].budget===c}>Previous change</button><button onClick=${()=>k(d+1)} disabled=${d===p.length-1}>Next change</button>
      <button onClick=${()=>v(u)} disabled=${c===u}>Back to ${$(u)}</button></span>
      <p role="status">${l.error?"Too small.":_`<b>${$(l.total,l.exact)}</b> of ${$(b.budget)} tokens, ${ie(b.budget-l.total,l.exact)}; ${x===0?"the same decisions as":`${$(x)} decided differently from`} at ${$(u)}.`}
      ${m?" Laid out, not interpolated.":` Laid out at ${$(l.budget)}, the nearest budget below ${$(c)} that this page holds.`}</p></div>
    <${Lt} record=${t} entry=${e} frame=${b} states=${f} scale=${r} chosen=${n} onChoose=${a} />`}function Wt({record:t,onBudget:e}){let[n,a]=T(-1);return _`<main><${ft} record=${t} entry=${t.entries[0]} chosen=${n} onChoose=${a} onBudget=${e} /></main>`}var mn={render({model:t,el:e}){let n=e.attachShadow({mode:"open"}),a=document.createElement("style");a.textContent=De.replaceAll(":root",":host").replace(/(^|\n)html \{/,"$1:host { display: block;");let i=document.createElement("div");n.append(a,i);let o=r=>{t.set("budget",r),t.save_changes()};return he(_`<${Wt} record=${et(t.get("record"))} onBudget=${o} />`,i),()=>he(null,i)}};export{mn as default};
