/* tokenbox inspector, Apache-2.0. With preact (MIT) and htm (Apache-2.0): see NOTICE. */
var S,ze,ut,D,ie,Y,Ce,K,Me,se,re,ft,q=Symbol.for("pv"),Z={},ee=[],ht=/^m(i|n|o|s|text|space)$/,le=Array.isArray,ce=ee.slice,F=Object.assign;function j(t){t&&t.parentNode&&t.remove()}function Te(t,e,n){var a,i,o,s={},r=arguments.length;for(o in e)o=="key"?a=e[o]:o=="ref"&&typeof t!="function"?i=e[o]:s[o]=e[o];return r>2&&(s.children=r>3?ce.call(arguments,2):n),V(t,s,a,i,null)}function V(t,e,n,a,i){var o={type:t,props:e,key:n,ref:a,__k:null,__:null,__b:0,__e:null,__c:null,constructor:q,__v:i||++ze,__i:-1,__u:0};return!i&&S.vnode&&S.vnode(o),o}function te(t){return t.children}function Q(t,e){this.props=t,this.context=e,this.__g=0}function W(t,e){if(e==null)return t.__&&W(t.__,t.__i+1);for(var n;e<t.__k.length;e++)if((n=t.__k[e])&&n.__e)return n.__e;return typeof t.type!="function"||t.props.__P?null:W(t)}function _t(t){var e,n=t.__v,a=n.__e,i=[],o=[],s=t.__P;s&&((e=F({constructor:q},n)).__v=n.__v+1,S.vnode&&S.vnode(e),pe(s,e,n,t.__n,s.namespaceURI,32&n.__u?[a]:null,i,a||W(n),32&n.__u,o),e.__v=n.__v,e.__.__k[e.__i]=e,De(i,e,o),n.__=n.__e=null,e.__e!=a&&Pe(e))}function Pe(t){if((t=t.__)&&t.__c&&!t.props.__P)return t.__e=null,t.__k.some(function(e){return e&&(t.__e=e.__e)}),Pe(t)}function ye(t){(8&t.__g||(t.__g|=8,D.push(t),Y++))&&ie==S.debounceRendering||((ie=S.debounceRendering)||queueMicrotask)(Ne)}function Ne(){try{for(var t,e=1;D.length;)D.length>e&&D.sort(Ce),t=D.shift(),e=D.length,8&t.__g&&_t(t)}finally{(Y=D.length)&&(ie||queueMicrotask)(Ne)}}function Ee(t,e,n,a,i,o,s,r,d,u,c){var m,p,l,f,g,x,b=a.__k||ee,h=e.length;for(d=mt(n,e,b,d,h),m=0;m<h;m++)(l=n.__k[m])!=null&&(p=~l.__i&&b[l.__i]||Z,l.__i=m,x=pe(t,l,p,i,o,s,r,d,u,c),f=l.__e,(p.ref!=l.ref||8&p.__u)&&(p.ref&&de(p.ref,null,l,p),l.ref&&c.push(l.ref,l.__c||f,l)),g=g||f,4&l.__u?(d=He(l,d,t,!p.__v),p.__e&&(p.__e=null)):typeof l.type=="function"&&x!==void 0?d=x:f&&(d=f.nextSibling),l.__u&=-21);return n.__e=g,d}function mt(t,e,n,a,i){var o,s,r,d,u,c,m,p,l,f=n.length,g=f,x=0,b=0,h=t.__k=Array(i);for(o=0;o<i;o++)(s=e[o])!=null&&typeof s!="boolean"&&typeof s!="function"?(typeof s!="object"||s.constructor===String?s=h[o]=V(null,s):le(s)?s=h[o]=V(te,{children:s}):s.constructor===q&&s.__b?s=h[o]=V(s.type,s.props,s.key,s.ref,s.__v):h[o]=s,d=o+x,s.__=t,s.__b=t.__b+1,r=null,~(u=s.__i=gt(s,n,d,g))&&(g--,(r=n[u])&&(r.__u|=2)),r&&r.__v?(s.__u|=16,u==d-1?x--:u==d+1?x++:u!=d&&(u>d?x--:x++,b=1)):(~u||(i>f?x--:i<f&&x++),typeof s.type!="function"&&(s.__u|=4))):h[o]=null;if(b){for(c=[],m=[],o=0;o<i;o++)if((s=h[o])&&16&s.__u){for(x=0,p=c.length;x<p;)c[l=x+p>>1]<s.__i?x=l+1:p=l;c[x]=s.__i,m[o]=x+1}for(x=c.length;o--;)m[o]&&(m[o]==x?x--:h[o].__u|=4)}if(g)for(o=0;o<f;o++)!(r=n[o])||2&r.__u||(r.__e==a&&(a=W(r)),ue(r,r));return a}function He(t,e,n,a){var i,o,s,r;if(typeof t.type=="function"){if(t.props.__P)return e;if(i=t.__k)for(o=0;o<i.length;o++)i[o]&&(i[o].__=t,e=He(i[o],e,n,!1));return e}for(e&&!e.parentNode&&(e=W(t))&&!e.parentNode&&(e=null),s=t.__e,r=e;r&&r.nodeType==8;)r=r.nextSibling;for(s!=r&&(!a&&n.moveBefore&&s.parentNode?n.moveBefore(s,e):n.insertBefore(s,e||null)),e=s;(e=e&&e.nextSibling)&&e.nodeType==8&&!e.data.startsWith("$s"););return e}function gt(t,e,n,a){var i,o=t.key,s=t.type,r=e[n],d=r&&!(2&r.__u);if(r===null&&o==null||d&&o==r.key&&s==r.type)return n;if(a>(d?1:0)){for(i=n-1;i>=0;i--)if((r=e[i])&&!(2&r.__u)&&o==r.key&&s==r.type)return i;for(i=n+1;i<e.length;i++)if((r=e[i])&&!(2&r.__u)&&o==r.key&&s==r.type)return i}return-1}function Se(t,e,n){n==null&&(n=""),e[0]=="-"?t.setProperty(e,n):t[e]=n}function J(t,e,n,a,i){var o,s;if(e=="style")if(typeof n=="string")t.style.cssText=n;else{if(typeof a=="string"&&(t.style.cssText=a=""),a)for(e in a)n&&e in n||Se(t.style,e);if(n)for(e in n)a&&n[e]==a[e]||Se(t.style,e,n[e])}else if(e[0]=="o"&&e[1]=="n")typeof n!="function"&&(n=null),typeof a!="function"&&(a=null),(t.__e||(t.__e={}))[e]=n,n&&a||(s=re[e]||(re[e]=xt(e)),(t.__a||(t.__a={}))[e]=se,o=e!=(e=e.replace(Me,"$1")),(e=e.slice(2))[0]<"a"&&(e=e.toLowerCase()),n?t.addEventListener(e,s,o):t.removeEventListener(e,s,o));else{if(i=="http:\x2f/www.w3.org/2000/svg")e=e.replace(/xlink(H|:h)/,"h").replace(/sName$/,"s");else if(e!="width"&&e!="height"&&e!="href"&&e!="list"&&e!="form"&&e!="tabIndex"&&e!="download"&&e!="rowSpan"&&e!="colSpan"&&e!="role"&&e!="popover"&&e in t)try{return void(t[e]=n??"")}catch{}if(typeof n=="function")return;n==null||n===!1&&e[4]!="-"?t.removeAttribute(e):t.setAttribute(e,e=="popover"&&n==1?"":n)}}function xt(t){return function(e){var n=this.__e;if(n){if(n=n[t],e[K]==null)e[K]=se++;else if(e[K]<this.__a[t])return;return n(S.event?S.event(e):e)}}}function pe(t,e,n,a,i,o,s,r,d,u){var c,m,p,l,f,g,x,b,h,$,w,y,T,k,U,ke,O,A,H=e.type;if(e.constructor!==q)return null;128&n.__u&&(d=32&n.__u,c=n.__c.__z)&&(e.__u|=d,m=o=[],c.nodeType==8?r=X(c,o):o.push(c),r=o[0]||r),(c=S.__b)&&c(e);e:if(typeof H=="function"){p=s.length;try{if(b=e.props,h=(c=H.prototype)&&c.render,$=(c=H.contextType)&&a[c.__c],w=c?$?$.props.value:c.__:a,(l=n.__c)?(e.__c=l,2&l.__g&&(l.__g|=1)):(h?e.__c=l=new H(b,w):(e.__c=l=new Q(b,w),l.constructor=H,l.render=$t),$&&$.sub(l),l.state||(l.state={}),l.__n=a,l.__g|=8,l.__h=[],l.__k=[]),h&&(l.__s||(l.__s=l.state),H.getDerivedStateFromProps&&(l.__s==l.state&&(l.__s=F({},l.__s)),F(l.__s,H.getDerivedStateFromProps(b,l.__s)))),f=l.props,g=l.state,l.__v=e,n.__c){if(b!==f&&h&&!H.getDerivedStateFromProps&&l.componentWillReceiveProps&&l.componentWillReceiveProps(b,w),e.__v==n.__v&&!(8&l.__g)||!(4&l.__g)&&l.shouldComponentUpdate&&l.shouldComponentUpdate(b,l.__s,w)===!1){e.__v!=n.__v&&(l.props=b,l.state=l.__s,l.__g&=-9),e.__e=n.__e,e.__k=n.__k,e.__k.some(function(N){N&&(N.__=e)}),ee.push.apply(l.__h,l.__k),l.__k=[],l.__h.length&&s.push(l),r=W(n);break e}l.componentWillUpdate&&l.componentWillUpdate(b,l.__s,w),h&&l.componentDidUpdate&&l.__h.push(function(){l.componentDidUpdate(f,g,x)})}else h&&!H.getDerivedStateFromProps&&l.componentWillMount&&l.componentWillMount(),h&&l.componentDidMount&&l.__h.push(l.componentDidMount);l.context=w,l.props=b,l.__P=t,l.__g&=-5,y=S.__r,T=h?25:0;do l.__g&=-9,y&&y(e),c=l.render(l.props,l.state=l.__s,l.context);while(8&l.__g&&++T<25);h&&(ee.push.apply(l.__h,l.__k),l.__k=[]),l.state=l.__s,l.getChildContext&&(a=F({},a,l.getChildContext())),h&&n.__c&&l.getSnapshotBeforeUpdate&&(x=l.getSnapshotBeforeUpdate(f,g)),k=c&&c.type===te&&c.key==null?c.props.children:c,b.__P&&(c=r,i=(t=b.__P).namespaceURI,d=o=null,n.props&&n.props.__P!=t&&(n.__k.some(function(N){N&&ue(N,N)}),n.__k=null),r=n.__k?W(n,0):null),r=Ee(t,le(k)?k:[k],e,n,a,i,o,s,r,d,u),b.__P&&(e.__e=null,r=c),e.__u&=-161,m&&m.some(j),l.__h.length&&s.push(l),1&l.__g&&(l.__g&=-4)}catch(N){if(s.length=p,e.__v=null,d||o)if(N&&N.then){if(e.__u|=128|d,o){for(~(O=o.indexOf(r||void 0))||(O=o.length);(A=o[O-1])&&A.nodeType==8;)O--;for(;O<o.length;O++)if(A=o[O])if(o[O]=null,U){if(A==ke)break}else{if(A.nodeType!=8)break;A.data.startsWith("$s")&&(ke=X(U=A))}}if(!U){for(;r&&r.nodeType==8&&r.nextSibling;)r=r.nextSibling;U=r}(c=X(U=e.__c.__z||(e.__c.__z=U)))?(e.__e=U,r=c):e.__e=r,r=r&&r.nextSibling}else o&&o.some(j);else e.__e=n.__e;e.__k||(e.__k=n.__k||[]),N&&N.then||Oe(e),S.__e(N,e,n)}}else r=e.__e=bt(n.__e,e,n,a,i,o,s,d,u,t);return(c=S.diffed)&&c(e),r}function X(t,e){if(t&&t.nodeType==8&&t.data.startsWith("$s"))for(var n=1;t=t.nextSibling;){if(t.nodeType==8){if(t.data.startsWith("$s"))n++;else if(t.data.startsWith("/$s")&&!--n)return t}e&&e.push(t)}}function Oe(t){t&&(t.__c&&(t.__c.__g|=4),t.__k&&t.__k.some(Oe))}function De(t,e,n){for(var a=0;a<n.length;)de(n[a++],n[a++],n[a++]);S.__c&&S.__c(e,t),t.some(function(i){try{t=i.__h,i.__h=[],t.some(function(o){o.call(i)})}catch(o){S.__e(o,i.__v)}})}function bt(t,e,n,a,i,o,s,r,d,u){var c,m,p,l,f,g,x,b,h=n.props||Z,$=e.props,w=e.type;if(w=="svg"?i="http:\x2f/www.w3.org/2000/svg":w=="math"?i="http:\x2f/www.w3.org/1998/Math/MathML":i||(i="http:\x2f/www.w3.org/1999/xhtml"),o){for(c=0;c<o.length;c++)if((f=o[c])&&(w?f.localName==w:f.nodeType==3)){t=f,o[c]=null;break}}if(!t){if(b=u.ownerDocument||document,!w)return b.createTextNode($);t=b.createElementNS(i,w,$.is?$:u),r&&(S.__m&&S.__m(e,o),r=!1),o=null}if(w){if(u=w=="template"&&t.content||t,o=w=="textarea"&&$.defaultValue!=null?null:o&&ce.call(u.childNodes),!r&&o)for(h={},c=0;c<t.attributes.length;c++)h[(f=t.attributes[c]).name]=f.value;for(c in h)f=h[c],c=="dangerouslySetInnerHTML"?p=f:c=="children"||c in $||c=="value"&&"defaultValue"in $||c=="checked"&&"defaultChecked"in $||J(t,c,null,f,i);for(c in $)f=$[c],c=="children"?l=f:c=="dangerouslySetInnerHTML"?m=f:c=="value"?g=f:c=="checked"?x=f:r&&typeof f!="function"||h[c]===f||J(t,c,f,h[c],i);m?(r||p&&(m.__html==p.__html||m.__html==t.innerHTML)||(t.innerHTML=m.__html),e.__k=[]):(p&&(t.textContent=""),(w=="foreignObject"||i=="http:\x2f/www.w3.org/1998/Math/MathML"&&ht.test(w))&&(i="http:\x2f/www.w3.org/1999/xhtml"),Ee(u,le(l)?l:[l],e,n,a,i,o,s,o?o[0]:n.__k&&W(n,0),r,d),o&&o.some(j)),r&&w!="textarea"||(c="value",w=="progress"&&g==null?t.removeAttribute(c):g==null||g===t[c]&&(w!="progress"||g)||J(t,c,g,h[c],i),c="checked",x!=null&&x!=t[c]&&J(t,c,x,h[c],i))}else h===$||r&&t.data==$||(t.data=$);return t}function de(t,e,n,a){try{typeof t=="function"?e?e.__x=t(e)||1:a&&(a=a.__c||a.__e)&&(e=a.__x)&&(a.__x=null,typeof e=="function"?e():t(null)):t.current=e}catch(i){S.__e(i,n)}}function ue(t,e,n){var a,i,o,s;if(S.unmount&&S.unmount(t),!(a=t.ref)||a.current&&a.current!=t.__e||de(a,null,e,t),a=t.__c){if(a.componentWillUnmount)try{a.componentWillUnmount()}catch(r){S.__e(r,e)}a.__P=a.__n=null}if(a=t.__k)for(s=0;s<a.length;s++)a[s]&&ue(a[s],e,typeof t.type!="function"||n&&!t.props.__P);!n&&(a=t.__c)&&(a=a.__z)&&(i=X(a,o=[]))&&(a==t.__e&&o.some(j),j(i),j(a)),n||j(t.__e),t.__e=t.__c=t.__=null}function $t(t,e,n){return this.constructor(t,n)}function fe(t,e){var n,a,i,o;S.__&&S.__(t,e),e.nodeType==9&&(e=e.documentElement),a=(n=t&&32&t.__u)?null:e.__k,e.__k=V(te,{children:[t]}),i=[],o=[],pe(e,e.__k,a||Z,Z,e.namespaceURI,a?null:e.firstChild?ce.call(e.childNodes):null,i,a?a.__e:e.firstChild,n,o),De(i,e.__k,o),e.__k.props.children=null}S={__e:function(t,e,n,a){for(var i,o,s;e=e.__;)if((i=e.__c)&&!(1&i.__g)){i.__g|=4;try{if((s=(o=i.constructor)&&o.getDerivedStateFromError)&&i.setState(o.getDerivedStateFromError(t)),i.componentDidCatch&&(i.componentDidCatch(t,a||{}),s=1),s&&8&i.__g)return void(i.__g|=2)}catch(r){t=r}}throw Y=0,t}},ze=0,ut=function(t){return t!=null&&t.constructor===q},Q.prototype.setState=function(t,e){var n=this.__s;n&&n!=this.state||(n=this.__s=F({},this.state)),typeof t=="function"&&(t=t(F({},n),this.props)),t&&(F(n,t),this.__v&&(e&&this.__k.push(e),ye(this)))},Q.prototype.forceUpdate=function(t){this.__v&&(this.__g|=4,t&&this.__h.push(t),ye(this))},Q.prototype.render=te,D=[],Y=0,Ce=function(t,e){return t.__v.__b-e.__v.__b},K=Symbol(),Me=/(PointerCapture)$|Capture$/i,se=0,re={},ft=0;var We=`:root {
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
`;var I,C,he,Le,_e=Object.is,ne=0,qe=[],me=[],z=S,Re=z.__b,Ue=z.__r,Ae=z.diffed,je=z.__c,Fe=z.unmount,Ie=z.__;function oe(t,e){z.__h&&z.__h(C,t,ne||e),ne=0;var n=C.__H||(C.__H={__:[],__h:[]});return t>=n.__.length&&n.__.push({}),n.__[t]}function M(t){return ne=1,wt(Ge,t)}function wt(t,e,n){var a=oe(I++,2);if(a.t=t,!a.__c&&(a.__=[n?n(e):Ge(void 0,e),function(o){var s=(a.__N||a.__)[0],r=a.t(s,o);_e(s,r)||(a.__N=[r,a.__[1]],a.__c.setState({}))}],a.__c=C,!C.__f)){C.__f=!0;var i=C.shouldComponentUpdate;C.shouldComponentUpdate=function(o,s,r){var d=this.__H;if(!d)return!0;var u=!1,c=this.props!=o;if(d.__.some(function(p){p.__N&&(u=!0,_e(p.__[0],p.__N[0])||(c=!0))}),i){var m=i.call(this,o,s,r);return u?m||c:m}return!u||c}}return a.__}function ae(t,e){var n=oe(I++,3);!z.__s&&$e(n.__H,e)&&(n.__P=!0,n.__=t,n.u=e,C.__H.__h.push(n))}function xe(t,e){var n=oe(I++,4);!z.__s&&$e(n.__H,e)&&(n.__P=!1,n.__=t,n.u=e,C.__h.push(n))}function be(t){return ne=5,P(function(){return{current:t}},[])}function P(t,e){var n=oe(I++,7);return $e(n.__H,e)&&(n.__=t(),n.__H=e),n.__}function kt(){var t;do{for(;t=me.shift();)try{G(t)}catch(n){z.__e(n,{__:(t=t.__P)&&t.__v})}for(;t=qe.shift();){var e=t.__H;if(t.__P&&e)try{e.__h.some(G),e.__h.some(ge),e.__h=[]}catch(n){e.__h=[],z.__e(n,t.__v)}}}while(me.length)}z.__b=function(t){C=null,Re&&Re(t)},z.__=function(t,e){t&&e.__k&&e.__k.__m&&(t.__m=e.__k.__m),Ie&&Ie(t,e)},z.__r=function(t){Ue&&Ue(t),I=0;var e=(C=t.__c).__H;e&&(he==C?C.__h=[]:(e.__h.some(G),e.__h.some(ge),I=0),e.__h=[],e.__.some(function(n){n.__N&&(n.__=n.__N),n.u=n.__N=void 0})),he=C},z.diffed=function(t){Ae&&Ae(t);var e=t.__c;e&&e.__H&&(e.__H.__h.length&&Ve(qe.push(e)),e.__H.__.some(function(n){n.u&&(n.__H=n.u)})),he=C=null},z.__c=function(t,e){e.some(function(n){try{n.__h.some(G),n.__h=n.__h.filter(function(a){return!a.__||ge(a)})}catch(a){n.__h=[function(){throw a}]}}),je&&je(t,e)},z.unmount=function(t){Fe&&Fe(t);var e,n,a=t.__c;a&&a.__H&&(a.__H.__.some(function(i){try{if(i.__P&&i.__c){if(n===void 0){for(n=t.__;n&&(!n.__c||!n.__c.__P);)n=n.__;n=n&&n.__c}i.__P=n,Ve(me.push(i))}else G(i)}catch(o){e=o}}),a.__H=void 0,e&&z.__e(e,a.__v))};var Be=typeof requestAnimationFrame=="function";function yt(t){var e,n=function(){clearTimeout(a),Be&&cancelAnimationFrame(e),setTimeout(t)},a=setTimeout(n,35);Be&&(e=requestAnimationFrame(n))}function Ve(t){t!=1&&Le==z.requestAnimationFrame||((Le=z.requestAnimationFrame)||yt)(kt)}function G(t){var e=C,n=t.__c;typeof n=="function"&&(t.__c=void 0,n()),C=e}function ge(t){var e=C;t.__c=t.__(),C=e}function $e(t,e){return!t||t.length!=e.length||e.some(function(n,a){return!_e(n,t[a])})}function Ge(t,e){return typeof e=="function"?e(t):e}var Ke=function(t,e,n,a){var i;e[0]=0;for(var o=1;o<e.length;o++){var s=e[o++],r=e[o]?(e[0]|=s?1:2,n[e[o++]]):e[++o];s===3?a[0]=r:s===4?a[1]=Object.assign(a[1]||{},r):s===5?(a[1]=a[1]||{})[e[++o]]=r:s===6?a[1][e[++o]]+=r+"":s?(i=t.apply(r,Ke(t,r,n,["",null])),a.push(i),r[0]?e[0]|=2:(e[o-2]=0,e[o]=i)):a.push(r)}return a},Je=new Map;function Qe(t){var e=Je.get(this);return e||(e=new Map,Je.set(this,e)),(e=Ke(this,e.get(t)||(e.set(t,e=(function(n){for(var a,i,o=1,s="",r="",d=[0],u=function(p){o===1&&(p||(s=s.replace(/^\s*\n\s*|\s*\n\s*$/g,"")))?d.push(0,p,s):o===3&&(p||s)?(d.push(3,p,s),o=2):o===2&&s==="..."&&p?d.push(4,p,0):o===2&&s&&!p?d.push(5,0,!0,s):o>=5&&((s||!p&&o===5)&&(d.push(o,0,s,i),o=6),p&&(d.push(o,p,0,i),o=6)),s=""},c=0;c<n.length;c++){c&&(o===1&&u(),u(c));for(var m=0;m<n[c].length;m++)a=n[c][m],o===1?a==="<"?(u(),d=[d],o=3):s+=a:o===4?s==="--"&&a===">"?(o=1,s=""):s=a+s[0]:r?a===r?r="":s+=a:a==='"'||a==="'"?r=a:a===">"?(u(),o=1):o&&(a==="="?(o=5,i=s,s=""):a==="/"&&(o<5||n[c][m+1]===">")?(u(),o===3&&(d=d[0]),o=d,(d=d[0]).push(2,0,o),o=0):a===" "||a==="	"||a===`
`||a==="\r"?(u(),o=2):s+=a),o===3&&s==="!--"&&(o=4,d=d[0])}return u(),d})(t)),e),arguments,[])).length>1?e:e[0]}var St=new Set(["dropped","omitted","evicted","absent","merged"]),zt={kept:"kept",full:"kept",sent:"kept",expanded:"expanded",compressed:"compressed",summary:"compressed",outline:"compressed",masked:"compressed",reduced:"compressed",truncated:"truncated",cut:"truncated",placeholder:"placeholder",listed:"placeholder",beside:"beside"},L=t=>St.has(t),R=(t,e)=>L(t)?"dropped":e&&(t==="kept"||t==="full")?"critical":zt[t]??"kept",Ct=/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,Xe=t=>t.replace(Ct,e=>`\\u${e.charCodeAt(0).toString(16).padStart(4,"0")}`);function Ze(t){let e=JSON.parse(t),n=new WeakMap,a=i=>i==null?null:typeof i=="number"?e.texts[i]:(n.has(i)||n.set(i,i.map(o=>typeof o=="number"?e.texts[o]:e.texts[o[0]].slice(o[1],o[2])).join("")),n.get(i));return e.entries.forEach((i,o)=>{i.number=o,i.title=Xe(i.title);for(let s of i.items)s.id=Xe(s.id);i.track=Ye(i,i.frames),i.slider&&(i.slider.track=Ye(i,i.slider.frames))}),{...e,text:a}}function Ye(t,e){let n=o=>({item:o,decision:"absent",size:0,ref:null,form:null,expand:null}),a=-1,i=t.items.map((o,s)=>n(s));return o=>{for(o<a?(a=-1,i=t.items.map((s,r)=>n(r))):o>a&&(i=i.slice());a<o;){a+=1;for(let[s,r,d=null,u=null,c=null,m=null]of e[a].changes)i[s]={item:s,decision:r,size:d,ref:u,form:c,expand:m}}return i}}function et(t,e,n){if(t===null)return null;if(t===e)return[];if(typeof t=="number")return null;let a=t.filter(s=>typeof s!="number"&&s[0]===e),i=[],o=0;for(let[,s,r]of a)s>o&&i.push([o,s]),o=r;return o<n.length&&i.push([o,n.length]),i}var E=t=>t.parts_exact??t.exact,Mt=new Intl.NumberFormat("en-US"),v=(t,e=!0)=>t==null?"unknown":`${e?"":"~"}${Mt.format(t)}`;var _=Qe.bind(Te),ot=4e3;function tt(t,e=0,n=t.length){let a=[],i=e;for(;i<n;){let o=Math.min(i+ot,n);if(o<n){let s=t.lastIndexOf(`
`,o);s>i?o=s+1:/[\ud800-\udbff]/.test(t[o-1])&&(o-=1)}a.push([i,o]),i=o}return a}var nt=16;function B({text:t,gone:e=[],label:n}){let a=P(()=>{let r=[],d=0;for(let[u,c]of[...e,[t.length,t.length]]){for(let[m,p]of tt(t,d,u))r.push([m,p,!1]);for(let[m,p]of tt(t,u,c))r.push([m,p,!0]);d=c}return r},[t,e]),[i,o]=M(nt);return ae(()=>o(nt),[t]),_`<div class="text" tabindex="0" role="region" aria-label=${n} onScroll=${r=>{let d=r.currentTarget;i<a.length&&d.scrollTop+2*d.clientHeight>d.scrollHeight&&o(i*2)}}>
    ${t===""&&_`<p class="faint">empty</p>`}
    ${a.slice(0,i).map(([r,d,u])=>_`<pre key=${r} class=${`${u?"gone":""}${d-r>ot/2?" long":""}`} dir="auto">${u?_`<del>${t.slice(r,d)}</del>`:t.slice(r,d)}</pre>`)}
    ${i<a.length&&_`<button class="more" onClick=${()=>o(a.length)}>
      Show the other ${v(t.length-a[i][0])} characters</button>`}
  </div>`}function Tt(){let t=be(null),[e,n]=M(0);return xe(()=>{let a=()=>n(t.current?t.current.clientWidth:0);a();let i=new ResizeObserver(a);return i.observe(t.current),()=>i.disconnect()},[]),[t,e]}function at({rows:t,height:e,label:n,chosen:a,onChoose:i,row:o,keyOf:s}){let r=be(null),[d,u]=M(0),[c,m]=M(600);xe(()=>{let h=()=>m(r.current.clientHeight||600);h();let $=new ResizeObserver(h);return $.observe(r.current),()=>$.disconnect()},[]);let p=t.findIndex(h=>s(h)===a);ae(()=>{if(p<0)return;let h=p*e;h<r.current.scrollTop?r.current.scrollTop=h:h+e>r.current.scrollTop+r.current.clientHeight&&(r.current.scrollTop=h+e-r.current.clientHeight)},[a]);let l=h=>{let $=Math.max(1,Math.floor(c/e)-1),w={ArrowDown:p+1,ArrowUp:p-1,PageDown:p+$,PageUp:p-$,Home:0,End:t.length-1}[h.key];w===void 0||!t.length||(h.preventDefault(),i(s(t[Math.max(0,Math.min(t.length-1,w))])))},f=Math.max(0,Math.floor(d/e)-6),g=Math.min(t.length,Math.ceil((d+c)/e)+6),x=t.slice(f,g),b=p>=f&&p<g?`row-${s(t[p])}`:void 0;return _`<div class="list" ref=${r} tabindex="0" role="listbox" aria-label=${n} aria-activedescendant=${b} style=${{height:`${Math.max(1,t.length)*e+2}px`}}
      onScroll=${h=>u(h.currentTarget.scrollTop)} onKeyDown=${l}>
    <div class="list-inside" role="presentation" style=${{height:`${t.length*e}px`}}>
      ${x.map((h,$)=>_`<div key=${s(h)} id=${`row-${s(h)}`} role="option" class="row"
        aria-selected=${s(h)===a?"true":"false"} aria-setsize=${t.length} aria-posinset=${f+$+1}
        style=${{top:`${(f+$)*e}px`,height:`${e}px`}} onClick=${()=>i(s(h))}>${o(h)}</div>`)}
    </div>
  </div>`}function Pt(t,e,n,a){let i=[],o=0;for(let s of e){let r=s.size??0;if(!r)continue;let d=R(s.decision,t.items[s.item].critical),u=i[i.length-1];u&&(u.end-u.start)/n*a<1.5&&r/n*a<1.5?(u.end=o+r,u.items.push(s.item),d!==u.kind&&(u.kind="mixed")):i.push({start:o,end:o+r,kind:d,items:[s.item]}),o+=r}return i}var ve=t=>t.reduce((e,n)=>e+(n.size??0),0);function it({entry:t,frame:e,states:n,chosen:a,onChoose:i,cached:o=null,scale:s,label:r}){let[d,u]=Tt(),[c,m]=M(null),p=ve(n),l=Math.max(e.total??0,p,1),f=Math.max(s??0,e.budget??0,l),[g,x]=M(s===void 0&&f>6*l),b=g?l:f,h=P(()=>Pt(t,n,b,u||1e3),[t,n,b,u]),$=k=>`${100*k/b}%`,w=k=>k.items.length>1?`${k.items.length} sections`:t.items[k.items[0]].id,y=c??h.find(k=>k.items.includes(a)),T=e.budget===null?null:e.budget-(e.total??0);return _`<figure class="strip" aria-label=${r}>
    <div class="track" ref=${d} onMouseLeave=${()=>m(null)}>
      ${h.map(k=>_`<div key=${k.items[0]} class=${`segment ${k.kind} ${k.items.includes(a)?"chosen":""}`}
        style=${{left:$(k.start),width:$(k.end-k.start)}}
        onMouseEnter=${()=>m(k)} onClick=${()=>i(k.items[0])}>
        ${(k.end-k.start)/b*u>64&&_`<span>${w(k)}</span>`}</div>`)}
      ${e.budget!==null&&e.budget<=b&&_`<div class="wall" style=${{left:$(e.budget)}}></div>`}
    </div>
    ${o!==null&&_`<div class="cache" aria-hidden="true">
      <div class="warm" style=${{width:$(o.tokens)}}></div>
      <div class="new" style=${{left:$(o.tokens),width:$(Math.max(0,p-o.tokens))}}></div></div>`}
    <div class="scale" aria-hidden="true">${[0,.25,.5,.75,1].map(k=>_`<span>${v(Math.round(b*k))}</span>`)}</div>
    <figcaption>
      ${y?_`<b><bdi>${w(y)}</bdi></b> ${v(y.end-y.start,E(e))} tokens, ${y.kind==="mixed"?"several decisions":y.kind}`:_`${v(e.total,e.exact)} tokens${e.budget===null?"":` of ${v(e.budget)}, ${v(T,e.exact)} free`}. Widths are to scale.`}
      ${f>l*1.02&&_` <button class="near" onClick=${()=>x(!g)}>${g?`Show all ${v(f)}`:"Show only what is sent"}</button>`}
      ${o!==null&&_` <span class="faint">${o.said}</span>`}
    </figcaption>
  </figure>`}function rt({entry:t,frame:e,states:n}){let a=[],i=(m,p,l,f,g="")=>a.push({label:m,from:p,to:l,kind:f,sign:g}),o=e.budget,s=t.limits.length?t.limits[0][1]:o;if(t.limits.length){let m=s;t.limits.forEach(([p,l],f)=>{f?i(p,m-l,m,"held","\u2212"):i(p,0,l,"total"),m-=f?l:0})}o!==null&&i("budget",0,o,"total",t.limits.length?"=":"");let r=e.total??0,d=e.fixed;d!=null?(i("critical",0,Math.min(d,r),"critical","\u2212"),i("flexible",Math.min(d,r),r,"kept","\u2212")):i("sent",0,r,"kept",o===null?"":"\u2212"),o!==null&&i(o<r?"over":"free",Math.min(r,o),Math.max(r,o),o<r?"dropped":"free","=");let u=Math.max(s??0,r,1),c=r-ve(n);return _`<table class="waterfall"><caption>Where the budget goes</caption><tbody>
    ${a.map(({label:m,from:p,to:l,kind:f,sign:g})=>_`<tr><th scope="row"><span class="sign">${g}</span>${m}</th>
      <td class="figure">${v(l-p,f==="total"||f==="held"||e.exact)}</td>
      <td class="bar" aria-hidden="true"><div class=${`fill ${f}`} style=${{left:`${100*p/u}%`,width:`${100*(l-p)/u}%`}}></div></td></tr>`)}
    </tbody>${c!==0&&e.total!==null&&_`<tfoot><tr><td colspan="3" class="faint">${v(r,e.exact)} with ${c>0?"+":"\u2212"}${v(Math.abs(c))} at the joins: separators, markup, and tokens that merge at borders.</td></tr></tfoot>`}
  </table>`}function st({entry:t,states:e}){let n=new Map;for(let a of e){if(a.decision==="absent")continue;let i=R(a.decision,t.items[a.item].critical);n.set(i,(n.get(i)??0)+1)}return _`<ul class="legend">${[...n].map(([a,i])=>_`<li><span class=${`swatch ${a}`} aria-hidden="true"></span>${a} <b>${v(i)}</b></li>`)}</ul>`}var lt=t=>t.decision!=="absent";function Nt({item:t,state:e,exact:n}){let a=Number((t.fields.find(([s])=>s==="min")?.[1]??"0").replaceAll(",","")),i=Math.max(t.base??0,e.size??0,a,1),o=[["base",t.base,"held"],...a?[["min",a,"mark"]]:[],["sent",e.size,R(e.decision,t.critical)]];return _`<table class="sizes"><caption class="unseen">Sizes in tokens</caption><tbody>${o.map(([s,r,d])=>_`<tr><th scope="row">${s}</th>
    <td class="figure">${v(r,n||s==="min")}</td>
    <td class="bar" aria-hidden="true"><div class=${`fill ${d}`} style=${{width:`${100*(r??0)/i}%`}}></div></td></tr>`)}</tbody></table>`}function ct({record:t,entry:e,frame:n,state:a,steps:i=n.steps??[]}){let[o,s]=M("sent"),r=a&&e.items[a.item],d=r?t.text(r.text):null,u=a?L(a.decision)?"":t.text(a.ref):null,c=P(()=>!a||d===null?null:L(a.decision)?[[0,d.length]]:et(a.ref,r.text,d),[a,d]);if(!r)return _`<section class="card empty"><p class="faint">Choose a section in the strip or the list to see its text and why it is what it is.</p></section>`;let m=i.filter(g=>g.items.includes(a.item)),p=c?c.reduce((g,[x,b])=>g+b-x,0):0,l=[["sent","Sent"],...d!==null&&p?[["cut","Left out marked"]]:[],...d!==null?[["whole","Whole"]]:[]],f=l.some(([g])=>g===o)?o:"sent";return _`<section class="card" aria-labelledby="card-title">
    <header><h2 id="card-title"><bdi>${r.id}</bdi></h2>
      <p><span class=${`chip ${R(a.decision,r.critical)}`}>${a.decision}</span>
        <span class="chip plain">${r.kind}</span>${r.critical&&_`<span class="chip plain">critical: never cut or dropped</span>`}</p></header>
    <${Nt} item=${r} state=${a} exact=${E(n)} />
    ${a.form&&_`<p>Sent in the form <code>${a.form}</code>.</p>`}
    ${m.length>0&&_`<div class="why"><h3>Why</h3><ol>${m.map(g=>_`<li><b>${g.action}</b>${g.before===g.after?"":` ${v(g.before,n.exact)} \u2192 ${v(g.after,n.exact)}`}: ${g.why}</li>`)}</ol></div>`}
    ${r.fields.length>0&&_`<dl class="fields">${r.fields.map(([g,x])=>_`<div><dt>${g}</dt><dd><bdi>${x}</bdi></dd></div>`)}</dl>`}
    ${r.forms.length>0&&_`<div class="forms"><h3>Forms, best first</h3><ol>
      <li class=${a.form?"":"taken"}>its content <span class="figure">${v(r.base,E(n))}</span></li>
      ${r.forms.map(([g,x,b])=>_`<li class=${a.form===g?"taken":""}><details><summary><code>${g}</code> <span class="figure">${v(b,E(n))}</span></summary>
        ${x===null?_`<p class="faint">The record does not contain this text.</p>`:_`<${B} text=${t.text(x)} label=${`Form ${g}`} />`}</details></li>`)}</ol></div>`}
    ${a.expand&&_`<p class="expand">The rest comes back with <code>expand("${a.expand}")</code>.</p>`}
    <div class="choice" role="group" aria-label="Which text">${l.map(([g,x])=>_`<button aria-pressed=${f===g?"true":"false"} onClick=${()=>s(g)}>${x}</button>`)}
      ${p>0&&_`<span class="faint">${v(p)} characters left out</span>`}</div>
    ${f==="sent"&&u===null&&_`<p class="faint">The record does not contain this text.</p>`}
    ${f==="sent"&&u!==null&&_`<${B} text=${u} label=${`What is sent of ${r.id}`} />`}
    ${f==="cut"&&_`<${B} text=${d} gone=${c} label=${`${r.id}, what was left out is marked`} />`}
    ${f==="whole"&&_`<${B} text=${d} label=${`The whole text of ${r.id}`} />`}
    ${r.digest&&_`<p class="digest"><span class="faint">SHA-256</span> <code>${r.digest}</code></p>`}
  </section>`}var Et=44,we={sent:["in order",null],base:["largest first",t=>(e,n)=>(t.items[n.item].base??n.size??0)-(t.items[e.item].base??e.size??0)],lost:["most left out first",t=>(e,n)=>pt(t,n)-pt(t,e)]},pt=(t,e)=>(t.items[e.item].base??0)-(e.size??0);function Ht({entry:t,frame:e,states:n,chosen:a,onChoose:i}){let[o,s]=M(""),[r,d]=M("sent"),u=P(()=>{let p=o.toLowerCase(),l=n.filter(f=>lt(f)&&(!p||t.items[f.item].id.toLowerCase().includes(p)||f.decision.includes(p)||t.items[f.item].kind.includes(p)));return we[r][1]?l.sort(we[r][1](t)):l},[t,n,o,r]),c=P(()=>Math.max(1,...u.map(p=>Math.max(t.items[p.item].base??0,p.size??0)).slice(0,6e4)),[u]),m=p=>{let l=t.items[p.item],f=R(p.decision,l.critical);return _`<span class="name"><bdi>${l.id}</bdi><small>${l.kind==="section"?"":l.kind}</small></span>
      <span class="meter" aria-hidden="true"><i class="held" style=${{width:`${100*(l.base??0)/c}%`}}></i><i class=${f} style=${{width:`${100*(p.size??0)/c}%`}}></i></span>
      <span class="figures">${l.base!==null&&l.base!==p.size?_`<small>${v(l.base,E(e))} → </small>`:""}${v(p.size,E(e))}</span>
      <span class=${`chip ${f}`}>${p.decision}</span>`};return _`<section class="rows" aria-label="Sections">
    <div class="tools"><label><span class="unseen">Find a section</span><input type="search" placeholder="Find" value=${o} onInput=${p=>s(p.target.value)} /></label>
      <label><span class="unseen">Order</span><select value=${r} onChange=${p=>d(p.target.value)}>${Object.entries(we).map(([p,[l]])=>_`<option value=${p}>${l}</option>`)}</select></label>
      <span class="faint" role="status">${v(u.length)} ${u.length===1?"row":"rows"}</span></div>
    <${at} rows=${u} height=${Et} label="Sections" chosen=${a} onChoose=${i} row=${m} keyOf=${p=>p.item} />
  </section>`}function Ot(t,e,n){if(t.usage&&t.usage.cached!==null&&t.usage.cached!==void 0)return{tokens:t.usage.cached,said:`${v(t.usage.cached)} tokens came from the prompt cache (the server's figure); the rest was new.`};if(!n)return null;let a=0;for(let i=0;i<e.length;i+=1){let[o,s]=[n[i],e[i]];if(!(L(o.decision)&&L(s.decision))){if(o.decision!==s.decision||o.size!==s.size||JSON.stringify(o.ref)!==JSON.stringify(s.ref))break;a+=s.size??0}}return{tokens:a,said:`${v(a,E(t))} tokens at the start are as they were one turn before, so a prompt cache can hold them.`}}function Dt({record:t,entry:e,frame:n,states:a,before:i=null,scale:o,steps:s,waterfall:r=!0,chosen:d,onChoose:u}){let c=P(()=>Ot(n,a,i),[n,a,i]);return _`<div class="stage">
    ${n.error?_`<p class="refused" role="status">${n.error}</p>`:_`<${it} entry=${e} frame=${n} states=${a} chosen=${d} onChoose=${u} cached=${c} scale=${o} label="The request, in order" />
        <${st} entry=${e} states=${a} />`}
    ${r&&!n.error&&_`<${rt} entry=${e} frame=${n} states=${a} />`}
    <div class="halves"><${Ht} entry=${e} frame=${n} states=${a} chosen=${d} onChoose=${u} />
      <${ct} record=${t} entry=${e} frame=${n} state=${a[d]} steps=${s} /></div>
  </div>`}function dt({record:t,entry:e,chosen:n,onChoose:a,onBudget:i=()=>{}}){let{low:o,high:s,every:r,frames:d}=e.slider,u=e.frames[0].budget??s,[c,m]=M(u),p=P(()=>{let[y,T]=[0,d.length-1];for(;y<T;){let k=y+T+1>>1;d[k].budget<=c?y=k:T=k-1}return y},[e,c]),l=d[p],f=P(()=>e.slider.track(p),[e,p]),g=P(()=>e.track(0),[e]),x=f.filter((y,T)=>y.decision!==g[T].decision||y.form!==g[T].form).length,b=r||l.budget===c||p+1<d.length&&d[p+1].budget===c+1&&l.budget===c,h={...l,budget:b?c:l.budget},$=y=>{let T=Math.max(o,Math.min(s,Math.round(y)||0));m(T),i(T)},w=y=>y>=0&&y<d.length&&$(d[y].budget);return _`<div class="control"><label for="budget">Budget</label>
      <input id="budget" type="range" min=${o} max=${s} value=${c} aria-valuetext=${`${v(c)} tokens`} onInput=${y=>$(Number(y.target.value))} />
      <span class="with"><input type="number" aria-label="Budget in tokens" min=${o} max=${s} value=${c} onChange=${y=>$(Number(y.target.value))} />
      <button onClick=${()=>w(d[p].budget===c?p-1:p)} disabled=${p===0&&d[0].budget===c}>Previous change</button><button onClick=${()=>w(p+1)} disabled=${p===d.length-1}>Next change</button>
      <button onClick=${()=>$(u)} disabled=${c===u}>Back to ${v(u)}</button></span>
      <p role="status">${l.error?"Too small.":_`<b>${v(l.total,l.exact)}</b> of ${v(h.budget)} tokens, ${v(h.budget-l.total,l.exact)} free; ${x===0?"the same decisions as":`${v(x)} decided differently from`} at ${v(u)}.`}
      ${b?" Laid out, not interpolated.":` Laid out at ${v(l.budget)}, the nearest budget below ${v(c)} that this page holds.`}</p></div>
    <${Dt} record=${t} entry=${e} frame=${h} states=${f} scale=${s} chosen=${n} onChoose=${a} />`}function Wt({record:t,onBudget:e}){let[n,a]=M(-1);return _`<main><${dt} record=${t} entry=${t.entries[0]} chosen=${n} onChoose=${a} onBudget=${e} /></main>`}var fn={render({model:t,el:e}){let n=e.attachShadow({mode:"open"}),a=document.createElement("style");a.textContent=We.replaceAll(":root",":host").replace(/(^|\n)html \{/,"$1:host { display: block;");let i=document.createElement("div");n.append(a,i);let o=s=>{t.set("budget",s),t.save_changes()};return fe(_`<${Wt} record=${Ze(t.get("record"))} onBudget=${o} />`,i),()=>fe(null,i)}};export{fn as default};
